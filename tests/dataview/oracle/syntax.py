"""The parser: text of a query to nested tuples."""

import re
from dataclasses import dataclass, field

from .literals import LINK, link_of, parse_date, parse_duration
from .values import DataviewError

NAMED_DATES = {"now", "today", "tomorrow", "yesterday", "sow", "eow", "som", "eom", "soy", "eoy"}
CLAUSES = {"from", "where", "sort", "group", "flatten", "limit"}
NAME = re.compile(r"[^\W\d][\w-]*|[\U0001F000-\U0001FAFF][\w-]*")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
STRING = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
SPACE = re.compile(r"\s*")
TAG = re.compile(r"#[\w/-]+")


@dataclass
class Query:
    kind: str
    with_id: bool = True
    columns: list = field(default_factory=list)
    source: tuple | None = None
    steps: list = field(default_factory=list)


class Parser:
    def __init__(self, text):
        # A line that begins with two slashes is a comment.
        self.text, self.place = re.sub(r"(?m)^([ \t]*)//[^\n]*", r"\1", text), 0
        self.skip()

    def skip(self):
        self.place = SPACE.match(self.text, self.place).end()

    def fail(self, what):
        line = self.text.count("\n", 0, self.place) + 1
        column = self.place - self.text.rfind("\n", 0, self.place)
        raise DataviewError(f"{line}:{column}: expected {what}")

    def match(self, pattern):
        found = re.compile(pattern, re.IGNORECASE).match(self.text, self.place)
        if found:
            self.place = found.end()
            self.skip()
        return found

    def word(self, *words):
        """A keyword, in any case, that is not the start of a longer name."""
        return self.match("(?:" + "|".join(words) + r")(?![\w-])")

    def symbol(self, symbol):
        return self.match(re.escape(symbol))

    def require(self, symbol):
        if not self.symbol(symbol):
            self.fail(repr(symbol))

    # --- expressions ---

    def expression(self):
        return self.chain(self.comparison, r"and(?![\w-])|or(?![\w-])|&|\|",
                          lambda sign: {"and": "&", "or": "|"}.get(sign.lower(), sign))

    def comparison(self):
        return self.chain(self.sum, r"!=|<=|>=|=(?!>)|<|>", str)

    def sum(self):
        return self.chain(self.term, r"[+-]", str)

    def term(self):
        return self.chain(self.unary, r"[*/%]", str)

    def chain(self, part, pattern, name):
        left = part()
        while found := self.match(pattern):
            left = ("binary", name(found[0]), left, part())
        return left

    def unary(self):
        if self.match(r"!(?!=|\[\[)"):
            return ("not", self.unary())
        return self.postfix(self.primary())

    def postfix(self, value):
        while True:
            if self.symbol("."):
                found = self.match(r"[^\W\d][\w-]*")
                if not found:
                    self.fail("a field name")
                value = ("index", value, ("literal", found[0]))
            elif self.symbol("["):
                value = ("index", value, self.expression())
                self.require("]")
            elif value[0] in ("name", "index") and self.symbol("("):
                if value[0] != "name":
                    self.fail("a function name")
                value = ("call", value[1], self.arguments(")"))
            else:
                return value

    def arguments(self, close):
        result = []
        while not self.symbol(close):
            if result:
                self.require(",")
            result.append(self.expression())
        return result

    def primary(self):
        text, place = self.text, self.place
        if found := LINK.match(text, place):
            self.match(LINK.pattern)
            return ("literal", link_of(found))
        if found := STRING.match(text, place):
            self.match(STRING.pattern)
            return ("literal", re.sub(r'\\(["\\])', r"\1", found[1]))
        if found := self.match(NUMBER.pattern):
            return ("literal", float(found[0]) if "." in found[0] else int(found[0]))
        if self.symbol("["):
            return ("list", self.arguments("]"))
        if self.symbol("{"):
            return self.object()
        if found := self.match(r"\(\s*((?:[^\W\d][\w-]*)(?:\s*,\s*[^\W\d][\w-]*)*|)\s*\)\s*=>"):
            names = [name.strip() for name in found[1].split(",") if name.strip()]
            return ("lambda", names, self.expression())
        if self.symbol("("):
            value = self.expression()
            self.require(")")
            return value
        return self.word_like()

    def word_like(self):
        found = NAME.match(self.text, self.place)
        if not found or self.at_clause():
            self.fail("an expression")
        if inner := self.match(r"date\(\s*([\w:.+-]+)\s*\)"):
            if inner[1] in NAMED_DATES:
                return ("named date", inner[1])
            if value := parse_date(inner[1]):
                return ("literal", value)
            self.place = inner.start()
        if inner := self.match(r"dur\(\s*(-?\d[^()\"]*?)\s*\)"):
            if value := parse_duration(inner[1]):
                return ("literal", value)
            self.place = inner.start()
        self.match(re.escape(found[0]))
        constants = {"true": True, "false": False, "null": None}
        if found[0] in constants:
            return ("literal", constants[found[0]])
        return ("name", found[0])

    def object(self):
        pairs = []
        while not self.symbol("}"):
            if pairs:
                self.require(",")
            found = self.match(STRING.pattern) or self.match(NAME.pattern)
            if not found:
                self.fail("a key")
            self.require(":")
            pairs.append((found[0].strip('"'), self.expression()))
        return ("object", pairs)

    # --- sources ---

    def source(self):
        left = self.source_part()
        while found := self.match(r"and(?![\w-])|or(?![\w-])|&|\|"):
            sign = {"and": "&", "or": "|"}.get(found[0].lower(), found[0])
            left = ("source " + sign, left, self.source_part())
        return left

    def source_part(self):
        if self.match(r"[-!](?!\[\[)") or self.match(r"[-!](?=\[\[)"):
            return ("source not", self.source_part())
        if self.symbol("("):
            inner = self.source()
            self.require(")")
            return inner
        if found := self.match(TAG.pattern):
            return ("tag", found[0])
        if found := self.match(STRING.pattern):
            return ("folder", found[1])
        kind = "outgoing" if self.match(r"outgoing\(") else "incoming"
        if found := self.match(LINK.pattern):
            if kind == "outgoing":
                self.require(")")
            return (kind, found[2])
        self.fail("a source")

    # --- queries ---

    def named(self):
        start = self.place
        value = self.expression()
        name = self.text[start:self.place].strip()
        if self.word("as"):
            found = self.match(STRING.pattern) or self.match(NAME.pattern)
            if not found:
                self.fail("a name")
            name = found[1] if found.re.groups else found[0]
        return name, value

    def query(self):
        if self.word("dataviewjs"):
            self.fail("a query, not JavaScript")
        found = self.word("table", "list", "task", "calendar")
        if not found:
            self.fail("TABLE, LIST, TASK or CALENDAR")
        query = Query(found[0].strip().lower())
        if query.kind in ("table", "list") and self.match(r"without\s+id(?![\w-])"):
            query.with_id = False
        if query.kind in ("table", "list") and not self.at_clause():
            query.columns.append(self.named() if query.kind == "table" else (None, self.expression()))
            while query.kind == "table" and self.symbol(","):
                query.columns.append(self.named())
        if query.kind == "calendar":
            query.columns.append((None, self.expression()))
        if self.word("from"):
            query.source = self.source()
        while self.place < len(self.text):
            query.steps.append(self.step())
        return query

    def at_clause(self):
        """Whether a clause begins here. `sort(` is a call of the function."""
        found = NAME.match(self.text, self.place)
        if found and self.text.startswith("(", found.end()) and found[0] == "sort":
            return False
        return self.place == len(self.text) or bool(found and found[0].lower() in CLAUSES)

    def step(self):
        if self.word("where"):
            return ("where", self.expression())
        if self.word("limit"):
            return ("limit", self.expression())
        if self.match(r"group\s+by(?![\w-])"):
            return ("group", *self.named())
        if self.word("flatten"):
            return ("flatten", *self.named())
        if self.word("sort"):
            keys = [self.sort_key()]
            while self.symbol(","):
                keys.append(self.sort_key())
            return ("sort", keys)
        self.fail("a clause")

    def sort_key(self):
        value = self.expression()
        found = self.word("ascending", "descending", "asc", "desc")
        return value, bool(found and found[0].strip().lower().startswith("desc"))
