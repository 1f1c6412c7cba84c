"""Reads pages of a running svcfs in headless Chromium; see scripts/browser.sh."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import websocket

FRAGMENTS_FILE = Path("src/render/tests/hostile.json")
ORDINARY_PAGE = Path("scripts/browser/ordinary.md")
FOREIGN = "evil.example"
# What Chromium asks for by itself.
OWN = ("about:", "data:", "chrome")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(url, seconds=30):
    until = time.time() + seconds
    while True:
        try:
            return urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            if time.time() > until:
                raise
            time.sleep(0.1)


class Chromium:
    """A browser that is driven over its DevTools protocol."""

    def __init__(self, folder):
        port = free_port()
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", f"--remote-debugging-port={port}", "--remote-allow-origins=*",
             f"--user-data-dir={folder}", "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        targets = json.loads(wait_for(f"http://127.0.0.1:{port}/json"))
        page = next(target for target in targets if target["type"] == "page")
        self.socket = websocket.create_connection(page["webSocketDebuggerUrl"], timeout=60)
        self.number = 0
        self.events = []
        for domain in ("Page", "Runtime", "Network", "Log", "Security"):
            if domain != "Security":
                self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, url):
        """Loads a page; returns what was requested, and the dialogs and errors."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        until = time.time() + 30
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            if time.time() > until:
                raise RuntimeError(f"{url} is not loaded")
            self.socket.settimeout(5)
            try:
                message = json.loads(self.socket.recv())
            except websocket.WebSocketTimeoutException:
                continue
            finally:
                self.socket.settimeout(60)
            self.events.append(message)
            if message["method"] == "Page.javascriptDialogOpening":
                self.call("Page.handleJavaScriptDialog", accept=False)
        self.call("Runtime.evaluate", expression="1")
        requests = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        dialogs = [event for event in self.events if event["method"] == "Page.javascriptDialogOpening"]
        return requests, dialogs

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def close(self):
        self.process.terminate()
        self.process.wait()


def call(base, method, target, body=None, headers=None):
    data = body.encode() if isinstance(body, str) else body
    request = urllib.request.Request(base + target, data=data, method=method, headers=headers or {})
    return urllib.request.urlopen(request, timeout=60).read()


def as_json(base, method, target, value):
    return json.loads(call(base, method, target, json.dumps(value), {"Content-Type": "application/json"}))


def hostile_pages():
    """Pages with every fragment in every context, some fragments to a page."""
    inputs = json.loads(FRAGMENTS_FILE.read_text())
    # Within quotes of YAML, a quote is written twice.
    quoted = [(context, fragment.replace("'", "''") if context.startswith("---") else fragment)
              for fragment in inputs["fragments"] for context in inputs["contexts"]]
    pages = [context.replace("@", fragment) for context, fragment in quoted]
    return [page.replace("alert(1)", "window.ran=1;alert(1)") for page in pages]


def check_hostile(base, browser):
    failures = []
    pages = hostile_pages()
    paths = []
    for number, text in enumerate(pages):
        head = "---\npublished: true\n---\n"
        text = re.sub(r"^---\n", "---\npublished: true\n", text) if text.startswith("---\n") else head + text
        path = f"hostile/{number}.md"
        call(base, "PUT", f"/api/svc/file?path={path}", text.encode(), {"Content-Type": "text/markdown"})
        paths.append(path)
    shares = [as_json(base, "POST", "/api/svc/share", {"path": path})["url"] for path in paths[::9]]
    addresses = [f"/p/{path}" for path in paths] + shares + ["/p/", "/p/?page=2"]
    # The check must see a script that runs, or it proves nothing.
    browser.open("data:text/html,<script>window.ran=1</script>")
    if not browser.evaluate("window.ran === 1"):
        failures.append("a script in a page without a policy is not seen")
    shown = 0
    for address in addresses:
        url = address if address.startswith("http") else base + address
        requests, dialogs = browser.open(url)
        shown += any(event["method"] == "Network.responseReceived" and event["params"]["response"]["status"] == 200
                     and event["params"].get("type") == "Document" for event in browser.events)
        # An `http` image of any server is permitted; so is what the page itself is made of.
        wrong = [asked for asked in requests if not asked.startswith((base, *OWN)) and not is_image(browser, asked)]
        ran = browser.evaluate("window.ran === 1 || document.querySelectorAll('script:not([type=\"application/ld+json\"])').length > 0")
        if wrong or dialogs or ran:
            failures.append(f"{address}: requests {wrong}, dialogs {len(dialogs)}, script {ran}")
    for number in range(0, len(paths), 9):
        html = json.loads(call(base, "GET", f"/api/svc/render?path={paths[number]}"))["html"]
        if re.search(r"<\s*(script|iframe|object|embed|style|svg|form)\b", html, re.I):
            failures.append(f"/render of {paths[number]}: {html[:200]}")
    if shown < len(addresses) - 1:
        failures.append(f"only {shown} of {len(addresses)} addresses show a page")
    print(f"{len(addresses)} addresses read, {shown} shown, {len(failures)} failures")
    return failures


def is_image(browser, url):
    kinds = [event["params"].get("type") for event in browser.events
             if event["method"] == "Network.requestWillBeSent" and event["params"]["request"]["url"] == url]
    return kinds and all(kind == "Image" for kind in kinds)


def check_ordinary(base, browser, folder):
    text = ORDINARY_PAGE.read_text()
    picture = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
    for path, content in [("guide/sailing.md", text), ("guide/knots.md", "---\npublished: true\n---\n# Knots\n\nA bowline makes a loop that does not slip.\n")]:
        call(base, "PUT", f"/api/svc/file?path={path}", content.encode())
    call(base, "PUT", "/api/svc/file?path=guide/dot.png", picture)
    wait_for(f"{base}/p/guide/sailing.md")
    time.sleep(1)
    failures = []
    axe = Path(os.environ["AXE"]).read_text()
    for address in ("/p/guide/sailing.md", "/p/"):
        for width in (390, 1440):
            for scheme in ("light", "dark"):
                browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
                browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                browser.open(base + address)
                # DevTools run in the page in spite of its policy.
                overflow = browser.evaluate("document.documentElement.scrollWidth > window.innerWidth")
                browser.evaluate(axe + ";1")
                found = browser.evaluate("axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).slice(0, 3).join(' ')))")
                failures += [f"{address} at {width} px, {scheme}: {violation}" for violation in found]
                if overflow:
                    failures.append(f"{address} at {width} px is wider than the screen")
                if folder:
                    name = "page" if address.endswith(".md") else "index"
                    shot = browser.call("Page.captureScreenshot", format="png")["data"]
                    (folder / f"{name}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot))
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    browser.open(base + "/p/guide/sailing.md")
    pdf = base64.b64decode(browser.call("Page.printToPDF")["data"])
    if not pdf.startswith(b"%PDF"):
        failures.append("the page is not printed")
    if folder:
        (folder / "page.pdf").write_bytes(pdf)
    print(f"ordinary pages: {len(failures)} failures")
    return failures


def main():
    program = Path(sys.argv[1]).resolve()
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temp:
        root, port = Path(temp) / "root", free_port()
        subprocess.run([program, "init", "--root", root], check=True, stdout=subprocess.DEVNULL)
        (root / ".svc/config.toml").write_text("[lint]\nreject_errors = false\nauto_format = false\n")
        log = open(Path(temp) / "log", "w")
        server = subprocess.Popen([program, "serve", "--root", root, "--port", str(port)], stdout=log, stderr=log)
        browser = None
        try:
            base = f"http://127.0.0.1:{port}"
            wait_for(f"{base}/readyz")
            browser = Chromium(Path(temp) / "profile")
            failures = check_ordinary(base, browser, folder)
            if os.environ.get("ONLY_ORDINARY") is None:
                failures += check_hostile(base, browser)
        finally:
            if browser:
                browser.close()
            server.terminate()
            server.wait()
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


main()
