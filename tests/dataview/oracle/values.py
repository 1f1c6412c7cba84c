"""The types of values, their order, their text and their form in the expected results."""

import math
import unicodedata
from datetime import datetime, timedelta, timezone

MILLISECONDS = {"weeks": 604_800_000, "days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000,
                "milliseconds": 1}
YEAR_DAYS, MONTH_DAYS = 365, 30


class DataviewError(Exception):
    """A query, or one row of it, that cannot be evaluated."""


class Date:
    def __init__(self, moment):
        self.moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)

    def iso(self):
        return self.moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.moment.microsecond // 1000:03d}"

    def is_midnight(self):
        return (self.moment.hour, self.moment.minute, self.moment.second) == (0, 0, 0)

    def plus(self, duration, sign=1):
        months = self.moment.year * 12 + self.moment.month - 1 + sign * duration.months
        year, month = divmod(months, 12)
        day = min(self.moment.day, days_in_month(year, month + 1))
        moved = self.moment.replace(year=year, month=month + 1, day=day)
        return Date(moved + sign * timedelta(milliseconds=duration.milliseconds))


class Duration:
    """Months and milliseconds: the two parts that do not convert into each other without a calendar."""

    def __init__(self, months=0, milliseconds=0):
        self.months, self.milliseconds = months, milliseconds

    def rough(self):
        """The length in milliseconds, with years of 365 and months of 30 days."""
        years, months = divmod(abs(self.months), 12)
        days = years * YEAR_DAYS + months * MONTH_DAYS
        return self.milliseconds + math.copysign(days, self.months) * MILLISECONDS["days"]

    def units(self, with_weeks=False):
        """The units that are not zero, from the longest to the shortest."""
        result = {}
        years, months = divmod(abs(self.months), 12)
        for name, amount in (("years", years), ("months", months)):
            if amount:
                result[name] = int(math.copysign(amount, self.months))
        rest = abs(self.milliseconds)
        for name, size in MILLISECONDS.items():
            if name == "weeks" and not with_weeks:
                continue
            amount, rest = divmod(rest, size) if name != "milliseconds" else (rest, 0)
            if amount:
                result[name] = plain(math.copysign(amount, self.milliseconds))
        return result


class Link:
    def __init__(self, path, display=None, embed=False, kind="file", subpath=None):
        self.path, self.display, self.embed, self.kind, self.subpath = path, display, embed, kind, subpath

    def full(self):
        mark = {"file": "", "header": "#", "block": "#^"}[self.kind]
        return self.path + mark + (self.subpath or "")

    def title(self):
        name = self.path.rsplit("/", 1)[-1].removesuffix(".md")
        return name + (f" > {self.subpath}" if self.subpath else "")

    def markdown(self):
        return ("!" if self.embed else "") + f"[[{self.full()}|{self.display or self.title()}]]"


class WebLink:
    def __init__(self, url, display):
        self.url, self.display = url, display


class Lambda:
    def __init__(self, names, body, scope):
        self.names, self.body, self.scope = names, body, scope


def plain(number):
    """A number without the fraction it does not have."""
    if isinstance(number, float) and math.isfinite(number) and number == int(number) and abs(number) < 1e15:
        return int(number)
    return number


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def days_in_month(year, month):
    following = datetime(year + month // 12, month % 12 + 1, 1)
    return (following - timedelta(days=1)).day


def type_of(value):
    if value is None:
        return "null"
    if is_number(value):
        return "number"
    return {str: "string", bool: "boolean", Date: "date", Duration: "duration", Link: "link", list: "array",
            dict: "object", Lambda: "function", WebLink: "html"}[type(value)]


def is_truthy(value):
    match value:
        case None | False | "" | 0:
            return False
        case Date():
            return value.moment.timestamp() != 0
        case Duration():
            return value.rough() != 0
        case list() | dict():
            return len(value) > 0
        case Link():
            return bool(value.path)
    return True


PUNCTUATION = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"


def collation_key(text):
    """Base letters first, then accents, then lower before upper case: the default order of a browser."""
    primary, accents, cases = [], [], []
    for char in unicodedata.normalize("NFD", text):
        category = unicodedata.category(char)
        if category.startswith("M"):
            accents.append((len(primary), ord(char)))
            continue
        folded = char.lower()
        if category.startswith("Z") or char.isspace():
            primary.append((0, 0, ord(char)))
        elif char.isdigit():
            primary.append((2, 0, int(unicodedata.digit(char, 0))))
        elif category[0] in "PS":
            place = PUNCTUATION.find(char)
            primary.append((1, place if place >= 0 else 99, ord(char)))
        else:
            primary.append((3, 0, folded))
        cases.append(0 if char == folded else 1)
    return [[key[0], key[1], str(key[2]) if key[0] == 3 else key[2]] for key in primary], accents, cases


def order(left, right):
    return (left > right) - (left < right)


def compare(left, right, resolve=lambda path: path):
    """-1, 0 or 1. Null is the least value; values of two types are in the order of the types' names."""
    kinds = type_of(left), type_of(right)
    if "null" in kinds:
        return order(kinds[0] != "null", kinds[1] != "null")
    if kinds[0] != kinds[1]:
        return order(*kinds)
    match kinds[0]:
        case "number" | "boolean":
            return order(left, right)
        case "string":
            return order(collation_key(left), collation_key(right))
        case "date":
            return order(left.moment, right.moment)
        case "duration":
            return order(left.rough(), right.rough())
        case "link":
            paths = order(collation_key(resolve(left.path)), collation_key(resolve(right.path)))
            return paths or order(left.kind, right.kind) or order(left.subpath or "", right.subpath or "")
        case "array":
            for one, other in zip(left, right):
                if outcome := compare(one, other, resolve):
                    return outcome
            return order(len(left), len(right))
        case "object":
            keys = sorted(left), sorted(right)
            if outcome := compare(*keys, resolve):
                return outcome
            return compare([left[key] for key in keys[0]], [right[key] for key in keys[1]], resolve)
    return 0


def number_text(number):
    number = plain(number)
    return repr(number) if isinstance(number, float) else str(number)


def date_text(date):
    day = date.moment.strftime("%B %d, %Y")
    if date.is_midnight():
        return day
    hour = (date.moment.hour - 1) % 12 + 1
    return f"{hour}:{date.moment.minute:02d} {'AM' if date.moment.hour < 12 else 'PM'} - {day}"


def duration_text(duration):
    return ", ".join(f"{amount} {unit if abs(amount) != 1 else unit[:-1]}"
                     for unit, amount in duration.units(with_weeks=True).items())


def text_of(value, inner=False):
    match type_of(value):
        case "null":
            return "-"
        case "string":
            return value
        case "number":
            return number_text(value)
        case "boolean":
            return "true" if value else "false"
        case "date":
            return date_text(value)
        case "duration":
            return duration_text(value)
        case "link":
            return value.markdown()
        case "html":
            return f"[{value.display}]({value.url})"
        case "array":
            joined = ", ".join(text_of(item, True) for item in value)
            return f"[{joined}]" if inner else joined
        case "object":
            return "{ " + ", ".join(f"{key}: {text_of(item, True)}" for key, item in value.items()) + " }"
    return "<function>"


def tagged(value, resolve):
    """The JSON form of a value in the expected results."""
    match type_of(value):
        case "number":
            return plain(value)
        case "array":
            return [tagged(item, resolve) for item in value]
        case "object":
            return {"object": {key: tagged(item, resolve) for key, item in value.items()}}
        case "date":
            return {"date": value.iso()}
        case "duration":
            return {"duration": value.units()}
        case "link":
            whole = Link(resolve(value.path), kind=value.kind, subpath=value.subpath).full()
            return {"link": whole, "display": value.display, "embed": value.embed}
        case "html":
            return {"link": value.url, "display": value.display, "embed": False}
        case "function":
            raise DataviewError("a function is not a result")
    return value
