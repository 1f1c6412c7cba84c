"""The functions of the language. A function that gets null where it needs a value gives null, unless noted."""

import math
import re
from decimal import ROUND_HALF_UP, Decimal

from .literals import format_date, format_duration, make_link, parse_date, parse_date_format, parse_duration
from .values import (DataviewError, Date, Duration, Lambda, Link, WebLink, compare, date_text, is_number, is_truthy,
                     plain, text_of, type_of)

FUNCTIONS = {}


def function(name, vector=(), types=None):
    """Registers a function. `vector` are the arguments that may be lists; `types` are the accepted types of each."""
    def register(body):
        def call(scope, *arguments):
            for place in vector:
                if place < len(arguments) and isinstance(arguments[place], list):
                    return [call(scope, *arguments[:place], item, *arguments[place + 1:])
                            for item in arguments[place]]
            check(name, types, arguments)
            if types and any(value is None for value, kind in zip(arguments, types) if "null" not in kind and kind != "*"):
                return None
            try:
                return body(scope, *arguments)
            except TypeError as error:
                if "argument" in str(error):
                    raise no_such_form(name, arguments) from error
                raise
        FUNCTIONS[name] = call
        return body
    return register


def no_such_form(name, arguments):
    return DataviewError(f"{name}({', '.join(map(type_of, arguments))})")


def check(name, types, arguments):
    if types is None:
        return
    for value, kind in zip(arguments, types):
        if kind != "*" and value is not None and type_of(value) not in kind.split("|"):
            raise no_such_form(name, arguments)


@function("object")
def make_object(scope, *pairs):
    if len(pairs) % 2 or not all(isinstance(key, str) for key in pairs[::2]):
        raise no_such_form("object", pairs)
    return dict(zip(pairs[::2], pairs[1::2]))


@function("list")
def make_list(scope, *items):
    return list(items)


FUNCTIONS["array"] = FUNCTIONS["list"]


@function("date", (0,), ("string|date|link", "string"))
def date(scope, value, form=None):
    if form is not None:
        if not isinstance(value, str):
            raise no_such_form("date", (value, form))
        return parse_date_format(value, form)
    if isinstance(value, Link):
        page = scope.page(value)
        return parse_date(value.title()) or parse_date(value.display or "") or (page["file"].get("day") if page else None)
    return parse_date(value) if isinstance(value, str) else value


@function("dur", (0,), ("string|duration",))
def dur(scope, value):
    return parse_duration(value) if isinstance(value, str) else value


@function("number", (0,), ("string|number",))
def number(scope, value):
    if is_number(value):
        return value
    found = re.search(r"-?\d+(\.\d+)?", value)
    return plain(float(found[0])) if found else None


@function("string")
def string(scope, value):
    return text_of(value)


@function("link", (0,), ("string|link", "string"))
def link(scope, target, display=None):
    if isinstance(target, Link):
        return Link(target.path, display or target.display, target.embed, target.kind, target.subpath)
    return make_link(target, display)


@function("embed", (0,), ("link", "boolean"))
def embed(scope, target, on=True):
    return Link(target.path, target.display, on, target.kind, target.subpath)


@function("elink", (0,), ("string", "string"))
def elink(scope, url, display=None):
    return WebLink(url, display or url)


FUNCTIONS["typeof"] = lambda scope, value: type_of(value)


# --- numbers ----------------------------------------------------------------------------------------------------------

@function("round", (0,), ("number", "number"))
def round_number(scope, value, digits=0):
    if digits <= 0:
        return math.floor(value + 0.5)
    unit = Decimal(1).scaleb(-int(digits))
    return float(Decimal(value).quantize(unit, ROUND_HALF_UP))


for name, body in (("trunc", math.trunc), ("floor", math.floor), ("ceil", math.ceil)):
    function(name, (0,), ("number",))(lambda scope, value, body=body: body(value))


def extreme(name, sign):
    def body(scope, *values):
        values = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        best = None
        for place, value in enumerate(values):
            if place == 0 or scope.compare(value, best) * sign < 0:
                best = value
        return best
    FUNCTIONS[name] = body


def extreme_by(name, sign):
    def body(scope, values, key):
        best = None
        for place, value in enumerate(values):
            outcome = scope.apply(key, value)
            if place == 0 or scope.compare(outcome, best[0]) * sign < 0:
                best = outcome, value
        return best[1] if best else None
    function(name, (), ("array", "function"))(body)


for suffix, sign in (("min", 1), ("max", -1)):
    extreme(suffix, sign)
    extreme_by(suffix + "by", sign)


@function("reduce", (), ("array", "string|function"))
def reduce(scope, values, operand):
    if not values:
        return None
    if isinstance(operand, str) and operand not in ("+", "-", "*", "/", "&", "|"):
        raise no_such_form("reduce", (values, operand))
    result = values[0]
    for value in values[1:]:
        result = scope.apply(operand, result, value) if isinstance(operand, Lambda) else scope.binary(operand, result, value)
    return result


@function("sum")
def total(scope, values):
    return reduce(scope, values, "+") if isinstance(values, list) else values


@function("product")
def product(scope, values):
    return reduce(scope, values, "*") if isinstance(values, list) else values


@function("average")
def average(scope, values):
    if not isinstance(values, list):
        return values
    return scope.binary("/", reduce(scope, values, "+"), len(values)) if values else None


# --- containers -------------------------------------------------------------------------------------------------------

def fold(value):
    return value.lower() if isinstance(value, str) else value


def container(name, exact=False, folds=False):
    def body(scope, whole, part):
        same = fold if folds else lambda value: value
        match whole:
            case list():
                if exact:
                    return any(scope.compare(item, part) == 0 for item in whole)
                return any(body(scope, item, part) for item in whole)
            case str():
                return isinstance(part, str) and same(part) in same(whole)
            case dict():
                return isinstance(part, str) and any(same(key) == same(part) for key in whole)
        return scope.compare(whole, part) == 0
    function(name)(body)


container("contains")
container("icontains", folds=True)
container("econtains", exact=True)


@function("containsword", (0,), ("string", "string"))
def containsword(scope, whole, word):
    return bool(re.search(rf"\b{re.escape(word)}\b", whole, re.IGNORECASE))


@function("extract")
def extract(scope, whole, *keys):
    if whole is None:
        return None
    if not isinstance(whole, dict):
        raise no_such_form("extract", (whole, *keys))
    return {key: whole.get(key) for key in keys}


@function("sort", (), ("array",))
def sort(scope, values):
    return scope.sorted(values)


@function("reverse", (), ("array",))
def reverse(scope, values):
    return values[::-1]


@function("length", (), ("array|object|string|null",))
def length(scope, value):
    return len(value.encode("utf-16-le")) // 2 if isinstance(value, str) else len(value or [])


@function("nonnull", (), ("array",))
def nonnull(scope, values):
    return [value for value in values if value is not None]


@function("firstvalue", (), ("array",))
def firstvalue(scope, values):
    return next((value for value in values if value is not None), None)


def quantifier(name, decide):
    def body(scope, *values):
        if len(values) == 2 and isinstance(values[1], Lambda):
            outcomes = [scope.apply(values[1], value) for value in values[0] or []]
        else:
            outcomes = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return decide(is_truthy(value) for value in outcomes)
    FUNCTIONS[name] = body


quantifier("all", all)
quantifier("any", any)
quantifier("none", lambda outcomes: not any(outcomes))


@function("join", (), ("*", "string"))
def join(scope, values, delimiter=", "):
    return delimiter.join(text_of(value, True) for value in values) if isinstance(values, list) else text_of(values)


@function("filter", (), ("array", "function"))
def keep(scope, values, predicate):
    return [value for value in values if is_truthy(scope.apply(predicate, value))]


@function("map", (), ("array", "function"))
def apply_to_each(scope, values, body):
    return [scope.apply(body, value) for value in values]


@function("unique", (), ("array",))
def unique(scope, values):
    result = []
    for value in values:
        if not any(scope.compare(value, other) == 0 for other in result):
            result.append(value)
    return result


@function("flat", (), ("array", "number"))
def flat(scope, values, depth=1):
    result = []
    for value in values:
        result += flat(scope, value, depth - 1) if isinstance(value, list) and depth >= 1 else [value]
    return result


@function("slice", (), ("array", "number", "number"))
def cut(scope, values, start=0, end=None):
    return values[int(start):None if end is None else int(end)]


# --- text -------------------------------------------------------------------------------------------------------------

def regex(pattern):
    try:
        return re.compile(pattern)
    except re.error as error:
        raise DataviewError(f"pattern {pattern}: {error}") from error


@function("regextest", (1,), ("string|null", "string|null"))
def regextest(scope, pattern, whole):
    return None not in (pattern, whole) and bool(regex(pattern).search(whole))


@function("regexmatch", (1,), ("string|null", "string|null"))
def regexmatch(scope, pattern, whole):
    return None not in (pattern, whole) and bool(regex(pattern).fullmatch(whole))


@function("regexreplace", (0,), ("string", "string", "string"))
def regexreplace(scope, whole, pattern, replacement):
    return regex(pattern).sub(lambda found: re.sub(r"\$(\d)", lambda group: found[int(group[1])] or "", replacement), whole)


@function("replace", (0,), ("string", "string", "string"))
def replace(scope, whole, pattern, replacement):
    return whole.replace(pattern, replacement)


function("lower", (0,), ("string",))(lambda scope, value: value.lower())
function("upper", (0,), ("string",))(lambda scope, value: value.upper())
function("startswith", (0,), ("string", "string"))(lambda scope, value, part: value.startswith(part))
function("endswith", (0,), ("string", "string"))(lambda scope, value, part: value.endswith(part))


@function("split", (0,), ("string", "string", "number"))
def split(scope, whole, delimiter, limit=None):
    parts = [part or "" for part in regex(delimiter).split(whole)]
    return parts if limit is None else parts[:int(limit)]


@function("padleft", (0,), ("string", "number", "string"))
def padleft(scope, value, width, padding=" "):
    return value.rjust(int(width), padding)


@function("padright", (0,), ("string", "number", "string"))
def padright(scope, value, width, padding=" "):
    return value.ljust(int(width), padding)


@function("substring", (0,), ("string", "number", "number"))
def substring(scope, value, start, end=None):
    end = len(value) if end is None else end
    first, last = sorted((min(max(int(place), 0), len(value)) for place in (start, end)))
    return value[first:last]


@function("truncate", (0,), ("string", "number", "string"))
def truncate(scope, value, width, suffix="..."):
    return value if len(value) <= width else value[:max(int(width) - len(suffix), 0)] + suffix


# --- the rest ---------------------------------------------------------------------------------------------------------

@function("default", (0, 1))
def default(scope, value, other):
    return other if value is None else value


@function("ldefault")
def ldefault(scope, value, other):
    return other if value is None else value


@function("choice", (0,))
def choice(scope, condition, left, right):
    return left if is_truthy(condition) else right


@function("display")
def display(scope, value):
    match value:
        case None:
            return ""
        case Link():
            return value.display or value.title()
        case WebLink():
            return value.display
        case list():
            return ", ".join(display(scope, item) for item in value)
        case str():
            value = re.sub(r"!?\[\[([^\]|]*)(?:\|([^\]]*))?\]\]", lambda found: found[2] or found[1], value)
            value = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", value)
            return re.sub(r"\*\*|__|~~|==|\*|`", "", value)
    return text_of(value)


@function("hash", (), ("string", "string|number", "number"))
def make_hash(scope, *seeds):
    result = 7
    for char in "\0".join(text_of(seed) for seed in seeds):
        result = (result * 31 + ord(char)) % (1 << 52)
    return result


@function("striptime", (0,), ("date",))
def striptime(scope, value):
    return Date(value.moment.replace(hour=0, minute=0, second=0, microsecond=0))


function("dateformat", (0,), ("date", "string"))(lambda scope, value, form: format_date(value, form))
function("durationformat", (0,), ("duration", "string"))(lambda scope, value, form: format_duration(value, form))


@function("currencyformat", (0,), ("number", "string"))
def currencyformat(scope, value, currency="USD"):
    symbols = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥"}
    digits = 0 if currency == "JPY" else 2
    amount = Decimal(abs(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return ("-" if value < 0 else "") + symbols[currency] + f"{amount:,}"


@function("localtime", (0,), ("date",))
def localtime(scope, value):
    return Date(value.moment.astimezone(scope.vault.now.tzinfo))


@function("meta", (0,), ("link",))
def meta(scope, value):
    return {"display": value.display, "embed": value.embed, "path": value.path, "subpath": value.subpath,
            "type": value.kind}
