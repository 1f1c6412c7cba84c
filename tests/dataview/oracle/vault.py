"""The pages of the vault with all the metadata that queries see. The YAML subset is the one the vault uses."""

import json
import re
from pathlib import Path
from urllib.parse import unquote

from .literals import LINK, link_of, make_link, parse_date, parse_duration, parse_link
from .values import Date, Link

KEY = re.compile(r"[^\[\]():,.;!?`\"'<>|]+")
FULL_LINE = re.compile(r"\s*([\w\s/*~_-]+?)\s*::(?:\s+(.*)|\s*)$")
ITEM = re.compile(r"^(\s*)(?:[-*+]|\d+[.)])\s+(?:\[(.)\]\s+)?(.*)$")
TAG = re.compile(r"(?:(?<=\s)|(?<=^)|(?<=\())#([\w/-]+)", re.MULTILINE)
MARKDOWN_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)")
SHORTHANDS = {"🗓️": "due", "📅": "due", "✅": "completion", "➕": "created", "🛫": "start", "⏳": "scheduled"}
SHORTHAND = re.compile("(" + "|".join(SHORTHANDS) + r")\s*(\d{4}-\d{2}-\d{2})")


# --- YAML -------------------------------------------------------------------------------------------------------------

def scalar(text):
    text = text.strip()
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return text[1:-1]
    if text in ("", "null", "~"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    return text


def flow(text):
    """A list or a map on one line, or a scalar."""
    text = text.strip()
    if not (text[:1] == "[" and text[-1:] == "]") and not (text[:1] == "{" and text[-1:] == "}"):
        return scalar(text)
    parts, depth, part, quote = [], 0, "", ""
    for char in text[1:-1]:
        quote = "" if char == quote else char if not quote and char in "\"'" else quote
        depth += 0 if quote else (char in "[{") - (char in "]}")
        if char == "," and not depth and not quote:
            parts.append(part)
            part = ""
        else:
            part += char
    if part.strip():
        parts.append(part)
    if text[0] == "[":
        return [flow(item) for item in parts]
    pairs = (item.split(":", 1) for item in parts)
    return {key.strip(): flow(value) for key, value in pairs}


def yaml(lines):
    result, place = {}, 0
    while place < len(lines):
        key, _, value = lines[place].partition(":")
        place += 1
        nested = []
        while place < len(lines) and lines[place].startswith("  "):
            nested.append(lines[place][2:])
            place += 1
        if not nested:
            result[key] = flow(value)
        elif nested[0].startswith("- "):
            result[key] = [flow(line[2:]) for line in nested]
        else:
            result[key] = yaml(nested)
    return result


# --- Fields -----------------------------------------------------------------------------------------------------------

def canonical(key):
    key = re.sub(r"[*~]+|^_+|_+$", "", key).strip().lower()
    return re.sub(r"[^\w-]", "", re.sub(r"\s+", "-", key))


def bare(key):
    return re.sub(r"[*~]+|^_+|_+$", "", key.strip()).strip()


def frontmatter_value(raw):
    """Frontmatter text becomes a date, a duration or a link where it reads as one."""
    match raw:
        case str():
            return next((value for value in (parse_date(raw), parse_duration(raw), parse_link(raw)) if value), raw)
        case list():
            return [frontmatter_value(item) for item in raw]
        case dict():
            return {key: frontmatter_value(item) for key, item in raw.items()}
    return raw


def atom(text):
    text = text.strip()
    if found := parse_date(text) or parse_duration(text) or parse_link(text):
        return found
    if re.fullmatch(r'"[^"]*"', text):
        return text[1:-1]
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return scalar(text)
    if text in ("true", "false"):
        return text == "true"
    return None


def field_value(text):
    """The typed value of an inline field: an atom, a comma list of atoms, or text."""
    text = text.strip()
    if not text:
        return None
    value = atom(text)
    if value is not None:
        return value
    parts = re.findall(r'"[^"]*"|\[\[[^\]]*\]\]|[^,]+', text)
    atoms = [atom(part) for part in parts if part.strip()]
    if len(atoms) > 1 and "," in text and None not in atoms:
        return atoms
    return text


def bracket_fields(text):
    """`[key:: value]` and `(key:: value)`, with balanced brackets in the value."""
    result, place = [], 0
    while place < len(text):
        if text[place] in "[(":
            close = {"[": "]", "(": ")"}[text[place]]
            depth, end = 0, place
            while end < len(text):
                depth += (text[end] == text[place]) - (text[end] == close)
                if not depth:
                    break
                end += 1
            key, mark, value = text[place + 1:end].partition("::")
            if end < len(text) and mark and KEY.fullmatch(key):
                result.append((bare(key), field_value(value)))
                place = end
        place += 1
    return result


def add_field(fields, key, value):
    if key in fields:
        old = fields[key] if isinstance(fields[key], list) else [fields[key]]
        fields[key] = old + (value if isinstance(value, list) else [value])
    else:
        fields[key] = value


def named_both_ways(pairs):
    """Fields under their written and their canonical name."""
    result, canonicals = {}, {}
    for key, value in pairs:
        add_field(result, key, value)
        add_field(canonicals, canonical(key), value)
    return {**result, **canonicals}


# --- Pages ------------------------------------------------------------------------------------------------------------

def blank_code(lines):
    """The lines without fenced blocks, inline code and comments; their number stays the same."""
    fence, result = None, []
    for line in lines:
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or line.strip().startswith(fence)):
            fence = None if fence else mark[1]
            result.append("")
        elif fence:
            result.append("")
        else:
            result.append(re.sub(r"`[^`]*`|%%.*?%%", lambda found: " " * len(found[0]), line))
    return result


def tags_in(text):
    text = re.sub(r"\]\([^)]*\)|https?://\S+|\[\[[^\]]*\]\]", " ", text)
    found = ("#" + tag.rstrip("/") for tag in TAG.findall(text) if not re.fullmatch(r"[\d/]+", tag))
    return list(dict.fromkeys(found))


def links_in(text):
    found = [(place.start(), link_of(place)) for place in LINK.finditer(text)]
    for place in MARKDOWN_LINK.finditer(text):
        if not re.match(r"[a-z]+:", place[2]):
            found.append((place.start(), make_link(unquote(place[2]), place[1])))
    return [link for _, link in sorted(found, key=lambda pair: pair[0])]


def strings_in(value):
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings_in(item)
        case dict():
            for item in value.values():
                yield from strings_in(item)


def with_parents(tags):
    result = {}
    for tag in tags:
        parts = tag.split("/")
        for count in range(1, len(parts) + 1):
            result["/".join(parts[:count])] = True
    return list(result)


class Vault:
    def __init__(self, folder):
        folder = Path(folder)
        facts = json.loads((folder / "files.json").read_text())
        self.now = parse_date(facts["now"]).moment
        self.pages, self.links, self.raw_links = {}, {}, {}
        for path in sorted(facts["files"], key=lambda path: path.encode()):
            self.links[path] = None
        for path in self.links:
            self.add(folder / "vault" / path, path, facts["files"][path])
        for path, page in self.pages.items():
            sources = [other for other in self.pages if path in self.targets(other)]
            page["file"]["inlinks"] = [Link(source) for source in sources]

    def resolve(self, path):
        """The full path of the page that a link means; the path itself when there is none."""
        if path in self.links:
            return path
        if path + ".md" in self.links:
            return path + ".md"
        named = [full for full in self.links if full.removesuffix(".md").endswith("/" + path.removesuffix(".md"))]
        return min(named, key=len) if named else path

    def targets(self, path):
        return [self.resolve(link.path) for link in self.links[path]]

    def normal(self, value):
        """Links in fields carry the full path of their page."""
        match value:
            case Link():
                return Link(self.resolve(value.path), value.display, value.embed, value.kind, value.subpath)
            case list():
                return [self.normal(item) for item in value]
            case dict():
                return {key: self.normal(item) for key, item in value.items()}
        return value

    def add(self, file, path, times):
        data = file.read_bytes()
        lines = data.decode().split("\n")
        raw, first = {}, 0
        if lines[0] == "---":
            first = lines.index("---", 1) + 1
            raw = yaml(lines[1:first - 1])
        lines = [""] * first + blank_code(lines)[first:] if first else blank_code(lines)
        items, pairs = self.scan(lines, path)
        matter = [(key, frontmatter_value(value)) for key, value in raw.items()]
        fields = self.normal(named_both_ways(matter + pairs))
        body = "\n".join(lines)
        self.links[path] = [link_of(found) for text in strings_in(raw) for found in LINK.finditer(text)] + links_in(body)
        fields["file"] = self.file(path, data, raw, fields, times, body, items)
        self.pages[path] = fields

    def file(self, path, data, raw, fields, times, body, items):
        tags = []
        for key in ("tags", "tag"):
            value = raw.get(key) or []
            words = re.split(r"[,\s]+", value) if isinstance(value, str) else [str(item) for item in value]
            tags += ["#" + word.removeprefix("#") for word in words if word]
        tags = list(dict.fromkeys(tags + tags_in(body)))
        aliases = []
        for key in ("aliases", "alias"):
            value = raw.get(key) or []
            aliases += [value] if isinstance(value, str) else value
        folder, _, name = path.rpartition("/")
        name, _, extension = name.rpartition(".")
        ctime, mtime = (parse_date(times[key]) for key in ("ctime", "mtime"))
        result = {
            "name": name, "path": path, "folder": folder, "ext": extension, "link": Link(path), "size": len(data),
            "ctime": ctime, "cday": midnight(ctime), "mtime": mtime, "mday": midnight(mtime),
            "tags": with_parents(tags), "etags": tags, "aliases": aliases, "frontmatter": raw, "starred": False,
            "lists": items, "tasks": [item for item in items if item["task"]],
            "outlinks": [self.normal(link) for link in self.links[path]], "inlinks": []}
        day = file_day(name) or next((value for value in [fields.get("date")] if isinstance(value, Date)), None)
        if day:
            result["day"] = midnight(day)
        return result

    def scan(self, lines, path):
        """List items with their fields, and the inline fields of the page."""
        items, pairs, stack, section, current = [], [], [], None, None
        for number, line in enumerate(lines):
            heading = re.match(r"#{1,6}\s+(.*)", line)
            found = ITEM.match(line)
            if heading:
                section, stack, current = heading[1].strip(), [], None
            if found:
                indent = len(found[1].expandtabs(4))
                while stack and stack[-1][0] >= indent:
                    stack.pop()
                current = self.item(found, number, path, section, stack[-1][1] if stack else None)
                items.append(current)
                stack.append((indent, current))
                own = item_fields(current)
                for key, value in own:
                    add_field(current, key, self.normal(value))
                    if canonical(key) != key:
                        add_field(current, canonical(key), self.normal(value))
                current["annotated"] = bool(own)
                pairs += [] if current["task"] else own
                continue
            if not line.strip():
                current = None if not lines[number - 1].strip() else current
            if not heading:
                pairs += bracket_fields(line) or full_line(line)
        for item in reversed(items):
            children = item["children"]
            item["fullyCompleted"] = item["completed"] and all(child["fullyCompleted"] for child in children)
        return items, pairs

    def item(self, found, number, path, section, parent):
        text = found[3].rstrip()
        block = re.search(r"\s\^([\w-]+)$", text)
        here = Link(path, kind="header", subpath=section) if section else Link(path)
        item = {
            "text": text, "line": number, "lineCount": 1, "path": path, "section": here, "task": found[2] is not None,
            "link": Link(path, kind="block", subpath=block[1]) if block else here, "children": [],
            "tags": tags_in(text), "outlinks": [self.normal(link) for link in links_in(text)],
            "parent": parent["line"] if parent else None, "blockId": block[1] if block else None,
            "status": found[2], "checked": found[2] is not None and found[2] != " ",
            "completed": found[2] in ("x", "X"), "position": {"start": {"line": number}}}
        if parent:
            parent["children"].append(item)
        return item


def midnight(date):
    return Date(date.moment.replace(hour=0, minute=0, second=0, microsecond=0))


def file_day(name):
    found = re.search(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)|(?<!\d)(\d{4})(\d{2})(\d{2})(?!\d)", name)
    return parse_date("-".join(part for part in found.groups() if part)) if found else None


def full_line(line):
    found = FULL_LINE.fullmatch(line)
    return [(bare(found[1]), field_value(found[2] or ""))] if found and bare(found[1]) else []


def item_fields(item):
    pairs = bracket_fields(item["text"]) or ([] if item["task"] else full_line(item["text"]))
    if item["task"]:
        pairs += [(SHORTHANDS[mark], parse_date(day)) for mark, day in SHORTHAND.findall(item["text"])]
    return pairs
