// Classifies with a schema, shows the model how like issues were decided before, and asks a person when it is unsure.

const KINDS = ["bug", "feature", "question", "docs"];
const SURE = 0.6;
const MAX_EARLIER = 8;

function run({ title, body, areas }) {
  const earlier = earlierDecisions(title);
  const schema = {
    type: "object",
    properties: {
      kind: { enum: KINDS },
      severity: { enum: ["low", "medium", "high", "critical"] },
      area: { enum: areas },
      reason: { type: "string", minLength: 1 },
      confidence: { type: "number", minimum: 0, maximum: 1 },
    },
    required: ["kind", "severity", "area", "reason", "confidence"],
    additionalProperties: false,
  };
  const answer = ai("classify", { title, body, areas, earlier }, { schema, effort: "low" });
  const decision = { ...answer, decided_by: "model", earlier: earlier.length };

  if (decision.confidence < SURE) {
    log(`unsure about "${title}": ${decision.kind}, ${decision.confidence}`);
    const kind = ask(`Is "${title}" a ${decision.kind}? ${decision.reason}`, { options: KINDS, default: decision.kind });
    if (kind !== decision.kind && KINDS.includes(kind)) {
      decision.kind = kind;
      decision.decided_by = "person";
    }
  }

  remember(`triage: "${title}" is ${decision.kind}, ${decision.severity}, ${decision.area}: ${decision.reason}`);
  log(`${decision.kind}, ${decision.severity}, ${decision.area}`);
  return decision;
}

// What was remembered of issues that share a longer word with this title, newest first, each once.
function earlierDecisions(title) {
  const found = new Set();
  const words = title.toLowerCase().match(/[a-z0-9_-]{5,}/g) ?? [];
  for (const word of words.slice(0, 6)) {
    for (const note of recall(word)) {
      if (note.text.startsWith("triage: ")) found.add(note.text.slice("triage: ".length));
    }
  }
  return [...found].slice(0, MAX_EARLIER);
}
