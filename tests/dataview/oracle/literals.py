"""Dates, durations and links in text; format strings of dates and durations."""

import re
from datetime import datetime, timedelta, timezone

from .values import MILLISECONDS, MONTH_DAYS, YEAR_DAYS, Date, Duration, Link, days_in_month

DATE = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2})(?:T(\d{2})(?::(\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?)?"
                  r"(Z|[+-]\d{2}:\d{2})?)?)?")
UNITS = {"year": 12, "yr": 12, "month": 1, "mo": 1}
SPANS = {"week": "weeks", "wk": "weeks", "w": "weeks", "day": "days", "d": "days", "hour": "hours", "hr": "hours",
         "h": "hours", "minute": "minutes", "min": "minutes", "m": "minutes", "second": "seconds", "sec": "seconds",
         "s": "seconds"}
PART = r"(-?\d+(?:\.\d+)?)\s*(years?|yrs?|months?|mos?|weeks?|wks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
DURATION = re.compile(rf"{PART}(?:\s*,?\s*{PART})*(?![A-Za-z])")
LINK = re.compile(r"(!?)\[\[([^\[\]|]*)(?:\|([^\[\]]*))?\]\]")


def parse_date(text):
    found = DATE.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    offset = timezone.utc
    if zone and zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        offset = timezone(sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6])))
    try:
        return Date(datetime(int(year), int(month), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
                             int((fraction or "0").ljust(3, "0")) * 1000, offset))
    except ValueError:
        return None


def parse_duration(text):
    text = text.strip()
    if not DURATION.fullmatch(text):
        return None
    months = milliseconds = 0
    for amount, unit in re.findall(PART, text):
        unit = unit if unit in UNITS or unit in SPANS else unit.removesuffix("s")
        if unit in UNITS:
            months += float(amount) * UNITS[unit]
        else:
            milliseconds += float(amount) * MILLISECONDS[SPANS[unit]]
    return Duration(int(months), round(milliseconds))


def parse_link(text):
    found = LINK.fullmatch(text.strip())
    return link_of(found) if found else None


def link_of(found):
    return make_link(found[2], found[3], bool(found[1]))


def make_link(target, display=None, embed=False):
    path, mark, subpath = target.partition("#")
    if not mark:
        return Link(path, display, embed)
    if subpath.startswith("^"):
        return Link(path, display, embed, "block", subpath[1:])
    return Link(path, display, embed, "header", subpath)


def named_date(name, now):
    """The dates with a name, such as `today` and `eom`."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    end = timedelta(days=1) - timedelta(milliseconds=1)
    monday = day - timedelta(days=day.weekday())
    dates = {
        "now": now, "today": day, "tomorrow": day + timedelta(days=1), "yesterday": day - timedelta(days=1),
        "sow": monday, "eow": monday + timedelta(days=6) + end,
        "som": day.replace(day=1), "eom": day.replace(day=days_in_month(day.year, day.month)) + end,
        "soy": day.replace(month=1, day=1), "eoy": day.replace(month=12, day=31) + end}
    return Date(dates[name]) if name in dates else None


def date_difference(left, right):
    """The calendar distance: whole months first, then the rest."""
    if left.moment < right.moment:
        flipped = date_difference(right, left)
        return Duration(-flipped.months, -flipped.milliseconds)
    months = (left.moment.year - right.moment.year) * 12 + left.moment.month - right.moment.month
    if right.plus(Duration(months)).moment > left.moment:
        months -= 1
    rest = left.moment - right.plus(Duration(months)).moment
    return Duration(months, round(rest / timedelta(milliseconds=1)))


MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def date_token(token, m):
    iso = m.isocalendar()
    offset = m.utcoffset()
    minutes = int(offset.total_seconds() // 60)
    sign, (hours, rest) = "+" if minutes >= 0 else "-", divmod(abs(minutes), 60)
    twelve = (m.hour - 1) % 12 + 1
    half = "AM" if m.hour < 12 else "PM"
    quarter = (m.month - 1) // 3 + 1
    day_of_year = m.timetuple().tm_yday
    milliseconds = m.microsecond // 1000
    short, long = MONTHS[m.month - 1][:3], MONTHS[m.month - 1]
    stamp = int(m.timestamp() * 1000)
    tokens = {
        "S": milliseconds, "SSS": f"{milliseconds:03d}", "u": f"{milliseconds:03d}",
        "s": m.second, "ss": f"{m.second:02d}", "m": m.minute, "mm": f"{m.minute:02d}",
        "h": twelve, "hh": f"{twelve:02d}", "H": m.hour, "HH": f"{m.hour:02d}",
        "Z": f"{sign}{hours}" + (f":{rest:02d}" if rest else ""), "ZZ": f"{sign}{hours:02d}:{rest:02d}",
        "ZZZ": f"{sign}{hours:02d}{rest:02d}", "a": half,
        "d": m.day, "dd": f"{m.day:02d}", "c": iso[2], "E": iso[2], "ccc": DAYS[iso[2] - 1][:3],
        "EEE": DAYS[iso[2] - 1][:3], "cccc": DAYS[iso[2] - 1], "EEEE": DAYS[iso[2] - 1],
        "L": m.month, "M": m.month, "LL": f"{m.month:02d}", "MM": f"{m.month:02d}", "LLL": short, "MMM": short,
        "LLLL": long, "MMMM": long, "y": m.year, "yy": f"{m.year % 100:02d}", "yyyy": f"{m.year:04d}",
        "kk": f"{iso[0] % 100:02d}", "kkkk": f"{iso[0]:04d}", "W": iso[1], "WW": f"{iso[1]:02d}",
        "o": day_of_year, "ooo": f"{day_of_year:03d}", "q": quarter, "qq": f"{quarter:02d}",
        "D": f"{m.month}/{m.day}/{m.year}", "DD": f"{short} {m.day}, {m.year}", "DDD": f"{long} {m.day}, {m.year}",
        "DDDD": f"{DAYS[iso[2] - 1]}, {long} {m.day}, {m.year}",
        "t": f"{twelve}:{m.minute:02d} {half}", "T": f"{m.hour:02d}:{m.minute:02d}",
        "TT": f"{m.hour:02d}:{m.minute:02d}:{m.second:02d}", "X": stamp // 1000, "x": stamp}
    return str(tokens.get(token, token))


def split_format(text):
    """Runs of one letter, and literal text: quoted or not a letter."""
    for found in re.finditer(r"'([^']*)'|((.)\3*)", text, re.DOTALL):
        quoted, run = found[1], found[2]
        yield (quoted, False) if quoted is not None else (run, run[0].isalpha())


def format_date(date, text):
    return "".join(date_token(run, date.moment) if token else run for run, token in split_format(text))


def parse_date_format(text, form):
    """A date in a text of a given form; null when the text has another form."""
    patterns = {"yyyy": r"(?P<year>\d{4})", "yy": r"(?P<short>\d{2})", "MM": r"(?P<month>\d{2})",
                "M": r"(?P<month>\d{1,2})", "LL": r"(?P<month>\d{2})", "dd": r"(?P<day>\d{2})",
                "d": r"(?P<day>\d{1,2})", "HH": r"(?P<hour>\d{2})", "mm": r"(?P<minute>\d{2})",
                "ss": r"(?P<second>\d{2})", "x": r"(?P<stamp>-?\d+)", "X": r"(?P<seconds>-?\d+)",
                "MMMM": "(?P<name>" + "|".join(MONTHS) + ")", "LLLL": "(?P<name>" + "|".join(MONTHS) + ")"}
    pattern = "".join(patterns.get(run, re.escape(run)) if token else re.escape(run)
                      for run, token in split_format(form))
    found = re.fullmatch(pattern, text)
    if not found:
        return None
    parts = found.groupdict()
    if "stamp" in parts or "seconds" in parts:
        seconds = int(parts["stamp"]) / 1000 if "stamp" in parts else int(parts["seconds"])
        return Date(datetime.fromtimestamp(seconds, timezone.utc))
    year = int(parts["year"]) if "year" in parts else None
    if "short" in parts:
        year = int(parts["short"]) + (2000 if int(parts["short"]) <= 60 else 1900)
    month = MONTHS.index(parts["name"]) + 1 if "name" in parts else int(parts.get("month", 1))
    try:
        return Date(datetime(year, month, int(parts.get("day", 1)), int(parts.get("hour", 0)),
                             int(parts.get("minute", 0)), int(parts.get("second", 0))))
    except (ValueError, TypeError):
        return None


def format_duration(duration, text):
    names = {"S": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks",
             "M": "months", "y": "years"}
    runs = list(split_format(text))
    used = {names[run[0]] for run, token in runs if token and run[0] in names}
    rest = duration.milliseconds
    months = duration.months
    amounts = {}
    if "years" in used:
        amounts["years"], months = divmod(months, 12)
        if "months" not in used:
            more, rest = divmod(rest, YEAR_DAYS * MILLISECONDS["days"])
            amounts["years"] += more
    if "months" in used:
        more, rest = divmod(rest, MONTH_DAYS * MILLISECONDS["days"])
        amounts["months"] = months + more
    else:
        years, months = divmod(months, 12)
        rest += (years * YEAR_DAYS + months * MONTH_DAYS) * MILLISECONDS["days"]
    for name, size in MILLISECONDS.items():
        if name in used:
            amounts[name], rest = divmod(rest, size)
    return "".join(str(int(amounts[names[run[0]]])).zfill(len(run)) if token and run[0] in names else run
                   for run, token in runs)
