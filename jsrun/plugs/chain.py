"""The messages of one run: both queues, the plugs between them, and every request answered exactly once.

    client = Side("client", write)             # lives as long as the client does; several runs may use it
    agent = Side("agent", process.stdin.write) # one per agent process
    chain = MessageChain(plugs, client, agent, clock=…, hold=300.0, on_failure=run.fail, on_message=trace)

    await side.receive(data); side.end()       # bytes read from a side; `receive` waits while too much is unread
    chain.start()                              # agent lines begin to flow, and `chain.send` works
    chain.admit()                              # client lines begin to flow
    await chain.send(index, message)           # for ctx.send of the plug at `index`; -1 is the client's place
    chain.hidden = True                        # what the agent sends while re-attaching passes plugs, not the client
    chain.in_flight; chain.quiet_since()       # unanswered requests of both sides; None, or the time of the last message
    await client.waiting()                     # a client line is there that no chain has begun
    chain.stop()                               # no client line begins any more; agent lines reach no plug
    await chain.cancel_prompts(5.0)            # session/cancel for each prompt, and time for its answer
    chain.agent_lost(error)                    # pending `next` calls raise AgentExited
    chain.client_lost()                        # the agent's requests are answered -32603
    await chain.close(error)                   # every request begun is answered; lines not begun stay in `client`
    client.refuse(text)                        # lines not begun are answered -32603

`plugs` are instances, outermost first, with `ctx.plug` and `message`.
"""
