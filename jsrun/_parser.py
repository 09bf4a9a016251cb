"""The parser of programs: `esprima` in module grammar, without its mistakes that authors meet.

It refuses some valid programs. What is put right here: it gave regular expressions to Python's `re`, which knows
another language (the engine checks them when it compiles); it did not know `async *m() {}` in object literals, fields
named by a keyword or with `super` in them, operators behind an array or object that is exported, `(-a) ** b`, and
escapes that only `String.raw` may have.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from esprima.comment_handler import CommentHandler
from esprima.messages import Messages
from esprima.nodes import (
    AsyncFunctionExpression,
    BinaryExpression,
    ExportDefaultDeclaration,
    FieldDefinition,
    MethodDefinition,
    Property,
    StaticBlock,
)
from esprima.parser import Parser
from esprima.token import Token

# Blanks and comments.
_GAP: Final = r"(?:\s|//[^\n\r]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*+"
_NEXT: Final = re.compile(_GAP)
_EXPORTED_LITERAL: Final = re.compile(rf"export{_GAP}default{_GAP}[\[{{]")
_LINE_END: Final = re.compile(r"[\n\r]")
# What follows a word of a class that is no modifier but a name itself.
_AFTER_NAME: Final = ("", "(", "=", ";", "}")


def parse(text: str, *, comments: bool = False) -> Any:
    """The syntax tree of a module, with `range` in every node, and `comments` if wanted.

    Raises what `esprima` raises: its Error with a place, RecursionError, or anything else for a fault of its own.
    """
    handler = CommentHandler() if comments else None

    def collect(node: Any, metadata: Any) -> Any:
        handler.visit(node, metadata)  # type: ignore[union-attr]
        return node

    options = {"range": True, "comment": comments, "classProperties": True}
    parser = _Parser(text, options=options, delegate=collect if comments else None)
    tree = parser.parseModule()
    if handler is not None:
        tree.comments = handler.comments
    return tree


class _Parser(Parser):  # type: ignore[misc]  # esprima has no types
    def __init__(self, text: str, options: dict[str, Any], delegate: Any) -> None:
        super().__init__(text, options=options, delegate=delegate)
        scanner = self.scanner
        scanner.testRegExp = lambda pattern, flags: None
        scan_hex, scan_template, refuse = scanner.scanHexEscape, scanner.scanTemplate, scanner.throwUnexpectedToken
        self._in_template = False

        def template() -> Any:
            self._in_template = True
            try:
                return scan_template()
            finally:
                self._in_template = False

        def hexadecimal(prefix: str) -> Any:
            found = scan_hex(prefix)
            return "\ufffd" if found is None and self._in_template and prefix == "x" else found

        def refused(message: str = Messages.UnexpectedTokenIllegal) -> None:
            if not (self._in_template and message == Messages.TemplateOctalLiteral):
                refuse(message)

        scanner.scanTemplate, scanner.scanHexEscape, scanner.throwUnexpectedToken = template, hexadecimal, refused

    # --- what stands ahead ---

    def _gap(self) -> tuple[str, bool]:
        """The character after the next token, and whether a line ends between the two."""
        source: str = self.scanner.source
        gap = _NEXT.match(source, self.lookahead.end)
        end = gap.end() if gap is not None else self.lookahead.end
        return source[end : end + 1], gap is not None and _LINE_END.search(gap[0]) is not None

    def _is_word(self, word: str) -> bool:
        token = self.lookahead
        return token.value == word and token.end - token.start == len(word) and token.type is not Token.StringLiteral

    # --- expressions ---

    def parseExponentiationExpression(self) -> Any:
        start = self.lookahead
        left = self.inheritCoverGrammar(self.parseUnaryExpression)
        in_brackets = start.type is Token.Punctuator and start.value == "("
        if not self.match("**") or (left.type == "UnaryExpression" and not in_brackets):
            return left
        self.nextToken()
        self.context.isAssignmentTarget = False
        self.context.isBindingElement = False
        right = self.isolateCoverGrammar(self.parseExponentiationExpression)
        return self.finalize(self.startNode(start), BinaryExpression("**", left, right))

    def parseObjectProperty(self, hasProto: Any) -> Any:
        if not self._is_word("async") or self._gap() != ("*", False):
            return super().parseObjectProperty(hasProto)
        node = self.createNode()
        self.nextToken()
        self.nextToken()
        computed = self.match("[")
        key = self.parseObjectPropertyKey()
        value = self._async_generator()
        return self.finalize(node, Property("init", key, computed, value, True, False))

    def _async_generator(self) -> Any:
        node = self.createNode()
        context = self.context
        before = context.allowYield, context.allowAwait
        context.allowYield, context.allowAwait = False, True
        parameters = self.parseFormalParameters()
        body = self.parsePropertyMethod(parameters)
        context.allowYield, context.allowAwait = before
        return self.finalize(node, AsyncFunctionExpression(None, parameters.params, body, True))

    # --- classes and exports ---

    def parseClassElement(self, hasConstructor: Any) -> Any:
        node = self.createNode()
        is_static = self._modifier("static")
        if is_static and self.match("{"):
            return self.finalize(node, StaticBlock(self._as_in_function(self.parseBlock)))
        is_async = not self._gap()[1] and self._modifier("async")
        accessor = ""
        if not is_async:
            accessor = next((word for word in ("get", "set") if self._gap()[0] != "*" and self._modifier(word)), "")
        is_generator = accessor == "" and self.match("*")
        if is_generator:
            self.nextToken()
        first = self.lookahead
        computed = self.match("[")
        key = self.parseObjectPropertyKey()
        is_constructor = not computed and self.isPropertyKey(key, "constructor")
        if accessor or is_generator or is_async or self.match("("):
            value = self._method(accessor, is_async, is_generator)
            kind = accessor or "method"
            if is_constructor and not is_static:
                if kind != "method" or is_generator or is_async:
                    self.throwUnexpectedToken(first, Messages.ConstructorSpecialMethod)
                if hasConstructor.value:
                    self.throwUnexpectedToken(first, Messages.DuplicateConstructor)
                hasConstructor.value = True
                kind = "constructor"
            if not computed and is_static and self.isPropertyKey(key, "prototype"):
                self.throwUnexpectedToken(first, Messages.StaticPrototype)
            return self.finalize(node, MethodDefinition(key, computed, value, kind, is_static))
        if is_constructor:
            self.throwUnexpectedToken(first, Messages.ConstructorField)
        value = None
        if self.match("="):
            self.nextToken()
            value = self._as_in_function(lambda: self.isolateCoverGrammar(self.parseAssignmentExpression))
        self.consumeSemicolon()
        return self.finalize(node, FieldDefinition(key, computed, value, "init", is_static))

    def _as_in_function(self, parse: Callable[[], Any]) -> Any:
        """Fields and static blocks may say `super`, as functions may."""
        before = self.context.inFunctionBody
        self.context.inFunctionBody = True
        result = parse()
        self.context.inFunctionBody = before
        return result

    def _modifier(self, word: str) -> bool:
        """Step over a word in front of a member's name, if it stands there and is not the name itself."""
        if not self._is_word(word) or self._gap()[0] in _AFTER_NAME:
            return False
        self.nextToken()
        return True

    def _method(self, accessor: str, is_async: bool, is_generator: bool) -> Any:
        if accessor == "get":
            return self.parseGetterMethod()
        if accessor == "set":
            return self.parseSetterMethod()
        if is_async:
            return self._async_generator() if is_generator else self.parsePropertyMethodAsyncFunction()
        return self.parseGeneratorMethod() if is_generator else self.parsePropertyMethodFunction()

    def parseExportDeclaration(self) -> Any:
        if not _EXPORTED_LITERAL.match(self.scanner.source, self.lookahead.start) or self.context.inFunctionBody:
            return super().parseExportDeclaration()
        node = self.createNode()
        self.nextToken()
        self.nextToken()
        declaration = self.isolateCoverGrammar(self.parseAssignmentExpression)
        self.consumeSemicolon()
        return self.finalize(node, ExportDefaultDeclaration(declaration))
