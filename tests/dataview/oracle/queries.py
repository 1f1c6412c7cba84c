"""Evaluation of expressions, sources and queries."""

import functools
import math

from .functions import FUNCTIONS
from .literals import date_difference, named_date
from .syntax import Parser
from .values import (MILLISECONDS, MONTH_DAYS, YEAR_DAYS, DataviewError, Date, Duration, Lambda, Link, compare, is_number,
                     is_truthy, plain, tagged, text_of, type_of)

FILE_FIELDS = {"name", "path", "folder", "ext", "link", "size", "ctime", "cday", "mtime", "mday", "day", "tags", "etags",
               "inlinks", "outlinks", "tasks", "lists", "aliases", "frontmatter", "starred"}


def date_part(date, name):
    moment = date.moment
    parts = {"year": moment.year, "month": moment.month, "day": moment.day, "hour": moment.hour,
             "minute": moment.minute, "second": moment.second, "millisecond": moment.microsecond // 1000,
             "week": moment.day // 7 + 1, "weekyear": moment.isocalendar()[1], "weekday": moment.isoweekday()}
    return parts.get(name)


def duration_part(duration, name):
    name = name if name.endswith("s") else name + "s"
    if name in ("years", "months"):
        days = duration.milliseconds / MILLISECONDS["days"]
        return plain(duration.months / 12 + days / YEAR_DAYS if name == "years" else duration.months + days / MONTH_DAYS)
    return plain(duration.rough() / MILLISECONDS[name]) if name in MILLISECONDS else None


class Scope:
    """Everything that an expression can refer to."""

    def __init__(self, vault, page):
        self.vault, self.this = vault, page
        self.row = {}

    # --- services for functions ---

    def page(self, link):
        return self.vault.pages.get(self.vault.resolve(link.path))

    def compare(self, left, right):
        return compare(left, right, self.vault.resolve)

    def sorted(self, values):
        return sorted(values, key=functools.cmp_to_key(self.compare))

    def apply(self, function, *values):
        row, self.row = self.row, {**function.scope, **dict(zip(function.names, values))}
        try:
            return self.value(function.body)
        finally:
            self.row = row

    # --- expressions ---

    def value(self, node):
        match node:
            case ("literal", Link() as link):
                return link if link.path else Link(self.this["file"]["path"], link.display) if self.this else None
            case ("literal", value):
                return value
            case ("named date", name):
                return named_date(name, self.vault.now)
            case ("name", "this"):
                return self.this
            case ("name", "row"):
                return self.row
            case ("name", name):
                return self.row.get(name)
            case ("list", items):
                return [self.value(item) for item in items]
            case ("object", pairs):
                return {key: self.value(item) for key, item in pairs}
            case ("lambda", names, body):
                return Lambda(names, body, self.row)
            case ("not", inner):
                return not is_truthy(self.value(inner))
            case ("index", inner, key):
                return self.index(self.value(inner), self.value(key))
            case ("call", name, arguments):
                return self.call(name, arguments)
            case ("binary", sign, left, right):
                return self.binary(sign, self.value(left), self.value(right))
        raise AssertionError(node)

    def call(self, name, arguments):
        arguments = [self.value(argument) for argument in arguments]
        return FUNCTIONS[name](self, *arguments)

    def index(self, value, key):
        match value, key:
            case None, _:
                return None
            case dict(), str():
                return value.get(key)
            case Link(), str():
                page = self.page(value)
                return page.get(key) if page else None
            case list(), str():
                return [self.index(item, key) for item in value]
            case (list() | str()), int():
                return value[key] if 0 <= key < len(value) else None
            case (str() | int() | float()), _:
                return None
            case Date(), str():
                return date_part(value, key)
            case Duration(), str():
                return duration_part(value, key)
        raise DataviewError(f"{type_of(value)}[{type_of(key)}]")

    def binary(self, sign, left, right):
        if sign in ("&", "|"):
            both = is_truthy(left), is_truthy(right)
            return all(both) if sign == "&" else any(both)
        if sign in ("=", "!=", "<", "<=", ">", ">="):
            outcome = self.compare(left, right)
            return {"=": outcome == 0, "!=": outcome != 0, "<": outcome < 0, "<=": outcome <= 0, ">": outcome > 0,
                    ">=": outcome >= 0}[sign]
        if is_number(left) and is_number(right):
            if sign in "/%" and right == 0:
                raise DataviewError("division by zero")
            results = {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
                       "/": lambda: left / right, "%": lambda: math.fmod(left, right)}
            return plain(results[sign]())
        match sign, left, right:
            case ("+", str(), _) | ("+", _, str()):
                return text_of(left) + text_of(right)
            case "*", str(), int():
                return left * right
            case ("+" | "-"), Date(), Duration():
                return left.plus(right, 1 if sign == "+" else -1)
            case "+", Duration(), Date():
                return right.plus(left)
            case "-", Date(), Date():
                return date_difference(left, right)
            case ("+" | "-"), Duration(), Duration():
                turn = 1 if sign == "+" else -1
                return Duration(left.months + turn * right.months, left.milliseconds + turn * right.milliseconds)
            case ("*" | "/"), Duration(), int():
                return scaled(left, right if sign == "*" else 1 / right)
            case "+", list(), list():
                return left + right
            case "+", dict(), dict():
                return {**left, **right}
            case ("+" | "-"), None, (Date() | Duration()):
                return None
            case ("+" | "-"), (Date() | Duration()), None:
                return None
        raise DataviewError(f"{type_of(left)} {sign} {type_of(right)}")

    # --- sources ---

    def sources(self, node):
        """The paths that a source selects."""
        pages = self.vault.pages
        match node:
            case ("source &", left, right):
                return self.sources(left) & self.sources(right)
            case ("source |", left, right):
                return self.sources(left) | self.sources(right)
            case ("source not", inner):
                return set(pages) - self.sources(inner)
            case ("tag", tag):
                return {path for path, page in pages.items()
                        if tag.lower() in [known.lower() for known in page["file"]["tags"]]}
            case ("folder", folder):
                inside = {path for path in pages if not folder or path.startswith(folder + "/")}
                return inside or {path for path in pages if folder in (path, path.removesuffix(".md"))}
            case ("incoming" | "outgoing", target):
                path = self.target(target)
                if node[0] == "incoming":
                    return {source for source in pages if path in self.vault.targets(source)}
                return set(self.vault.targets(path)) & set(pages)
        raise AssertionError(node)

    def target(self, target):
        target = target.partition("#")[0]
        if not target:
            if self.this is None:
                raise DataviewError("no page")
            return self.this["file"]["path"]
        path = self.vault.resolve(target)
        if path not in self.vault.pages:
            raise DataviewError(f"no page {target}")
        return path


def scaled(duration, factor):
    months = duration.months * factor
    if months != int(months):
        raise DataviewError("parts of months")
    return Duration(int(months), round(duration.milliseconds * factor))


def check(node):
    """Refuses unknown functions and unknown fields of `file`, whether or not there are rows."""
    match node:
        case ("literal", _):
            return
        case ("call", name, arguments):
            if name not in FUNCTIONS:
                raise DataviewError(f"unknown function {name}")
            check(arguments)
        case ("index", ("name", "file") | ("index", ("name", "this" | "rows"), ("literal", "file")),
              ("literal", str() as name)) if name not in FILE_FIELDS:
            raise DataviewError(f"unknown field file.{name}")
        case tuple() | list():
            for part in node:
                check(part)


class Run:
    def __init__(self, vault, page):
        self.scope = Scope(vault, vault.pages.get(page))

    def each(self, rows, body):
        """Rows with an error are left out, unless all rows have one."""
        results, errors = [], []
        for row in rows:
            self.scope.row = row
            try:
                results.append((row, body(row)))
            except DataviewError as error:
                errors.append(error)
        if errors and len(errors) == len(rows):
            raise errors[0]
        return results

    def values(self, rows, node):
        return self.each(rows, lambda row: self.scope.value(node))

    def step(self, rows, step):
        match step:
            case ("where", node):
                return [row for row, value in self.values(rows, node) if is_truthy(value)]
            case ("limit", node):
                self.scope.row = {}
                count = self.scope.value(node)
                if not is_number(count):
                    raise DataviewError("LIMIT needs a number")
                return rows[:int(count)]
            case ("sort", keys):
                keyed = self.each(rows, lambda row: [self.scope.value(node) for node, _ in keys])
                for place, (_, descends) in reversed(list(enumerate(keys))):
                    key = functools.cmp_to_key(lambda left, right: self.scope.compare(left[1][place], right[1][place]))
                    keyed.sort(key=key, reverse=descends)
                return [row for row, _ in keyed]
            case ("flatten", name, node):
                return [{**row, name: item} for row, value in self.values(rows, node)
                        for item in (value if isinstance(value, list) else [value])]
            case ("group", name, node):
                return self.group(rows, name, node)
        raise AssertionError(step)

    def group(self, rows, name, node):
        keyed = self.values(rows, node)
        keyed.sort(key=functools.cmp_to_key(lambda left, right: self.scope.compare(left[1], right[1])))
        groups = []
        for row, key in keyed:
            if not groups or self.scope.compare(groups[-1]["key"], key) != 0:
                groups.append({"key": key, name: key, "rows": []})
            groups[-1]["rows"].append(row)
        return groups

    def result(self, text):
        query = Parser(text).query()
        check([query.columns, query.steps])
        pages = self.scope.vault.pages
        paths = self.scope.sources(query.source) if query.source else set(pages)
        rows = [page for path, page in pages.items() if path in paths]
        if query.kind == "task":
            rows = [{**page, **task} for page in rows for task in page["file"]["tasks"]]
        for step in query.steps:
            rows = self.step(rows, step)
        grouped = any(step[0] == "group" for step in query.steps)
        rows = getattr(self, query.kind)(query, rows, grouped)
        headers = []
        if query.kind == "table":
            first = ["Group" if grouped else "File"] if query.with_id or not query.columns else []
            headers = first + [name for name, _ in query.columns]
        return {"type": query.kind, "headers": headers, "rows": tagged_rows(rows, self.scope.vault.resolve)}

    def identity(self, row, grouped):
        return row.get("key") if grouped else row["file"]["link"]

    def table(self, query, rows, grouped):
        with_id = query.with_id or not query.columns

        def cells(row):
            first = [self.identity(row, grouped)] if with_id else []
            return first + [self.scope.value(node) for _, node in query.columns]
        return [value for _, value in self.each(rows, cells)]

    list = table

    def calendar(self, query, rows, grouped):
        result = []
        for row, value in self.values(rows, query.columns[0][1]):
            if value is not None:
                if not isinstance(value, Date):
                    raise DataviewError("CALENDAR needs a date")
                result.append([value, row["file"]["link"]])
        return result

    def task(self, query, rows, grouped):
        if grouped:
            return [{"key": row["key"], "rows": self.task(query, row["rows"], "rows" in (row["rows"] or [{}])[0])}
                    for row in rows]
        places = {(row["path"], row["line"]) for row in rows}
        result = []

        def emit(item):
            result.append([item["text"], item["status"], item["path"], item["line"]])
            for child in item["children"]:
                emit(child)

        for row in rows:
            if not any((row["path"], line) in places for line in self.ancestors(row)):
                emit(row)
        return result

    def ancestors(self, row):
        lines = {item["line"]: item["parent"] for item in self.scope.vault.pages[row["path"]]["file"]["lists"]}
        parent = row["parent"]
        while parent is not None:
            yield parent
            parent = lines[parent]


def tagged_rows(rows, resolve):
    return [{"key": tagged(row["key"], resolve), "rows": tagged_rows(row["rows"], resolve)} if isinstance(row, dict)
            else [tagged(cell, resolve) for cell in row] for row in rows]


def evaluate(vault, page, text):
    try:
        return Run(vault, page).result(text)
    except DataviewError as error:
        return {"error": True, "reason": str(error)}
