"""echelon report and echelon watch on real runs, on broken ones and in a browser."""
import fcntl
import html.parser
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import product


class Page(html.parser.HTMLParser):
    """What a test asks of a page: texts, drawings, tables, and whether the tags fit."""
    VOID = {"meta", "link", "path", "rect", "circle", "br", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.charts, self.attributes, self.sections = [], [], {}, [], {}
        self.chart = self.section = None
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = self.sections.setdefault(given["id"], [])
        if tag == "figure":
            self.chart = self.charts.setdefault(given["id"], {"marks": 0, "rows": 0, "img": False, "title": False})
        if self.chart is not None:
            self.chart["marks"] += tag in ("path", "rect", "circle")
            self.chart["rows"] += tag == "tr"
            self.chart["img"] |= tag == "svg" and given.get("role") == "img" and "tabindex" in given
            self.chart["title"] |= tag == "title"

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in self.VOID:
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> within {self.open[-3:]}"
        self.open.pop()
        if tag == "figure":
            self.chart = None
        if tag == "section":
            self.section = None

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text.append(data)
            if self.section is not None:
                self.section.append(data)

    def said(self, section=None):
        return " ".join(" ".join(self.text if section is None else self.sections[section]).split())


class Browser:
    """Chromium without a window, driven through its debugging pipe."""

    def __init__(self, program, folder):
        from_us, to_browser = os.pipe()
        from_browser, to_us = os.pipe()

        def connect():
            # Above all that are open here, so that neither hides the other.
            ours, theirs = os.dup(from_us), os.dup(to_us)
            os.dup2(ours, 3)
            os.dup2(theirs, 4)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}"],
            preexec_fn=connect, pass_fds=(3, 4, from_us, to_us), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(from_us)
        os.close(to_us)
        self.to, self.come, self.rest = to_browser, from_browser, b""
        self.number, self.session, self.events = 0, None, []

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to)
        os.close(self.come)

    def message(self):
        deadline = time.monotonic() + product.WAIT_S
        while b"\0" not in self.rest:
            if not select.select([self.come], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            got = os.read(self.come, 1 << 20)
            if not got:
                raise AssertionError("the browser has ended")
            self.rest += got
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path, width, height, dark=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=f"file://{path}")
        while self.value("document.readyState + location.protocol") != "completefile:":
            time.sleep(0.05)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9, "ArrowLeft": 37}[key])

    def complaints(self):
        """Errors of the page, and whatever it asked the network for."""
        wrong = [event for event in self.events if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
        return wrong + [event["params"]["request"]["url"] for event in self.events
                        if event.get("method") == "Network.requestWillBeSent" and not event["params"]["request"]["url"].startswith(("file:", "data:"))]


class Tests(product.Case):
    def run_of_two_ranks(self, steps=12):
        self.prepare()
        return self.recipe(**{**product.ON_TOKENS,
            "data.validation.path": "data/valid.tok", "data.validation.batches": 1, "train.validate_every_steps": 4,
            "train.steps": steps, "checkpoint.every_steps": 4, "train.global_batch_size": 4, "run.name": "tiny"})

    def trained(self):
        recipe = self.run_of_two_ranks()
        self.train(recipe, "train.steps=8", "schedule.warmup_steps=2", ranks=2)
        self.train(recipe, "schedule.warmup_steps=2", ranks=2)  # a second start, which resumes

    def report(self, *arguments, code=0):
        return self.command(product.ECHELON, "report", *arguments, code=code)

    def page(self, path="run/report.html"):
        text = (self.folder / path).read_text()
        found = Page(text)
        for name, value in found.attributes:
            self.assertFalse(name.startswith("on"), "a handler that a text could have brought")
            if name in ("src", "href", "action"):
                self.assertRegex(value, "^(#|data:)", "the page asks for another file")
        for place in re.findall(r"url\((.*?)\)", text):
            self.assertRegex(place, "^#", "the page asks for another file")
        return found

    # -- the page

    def test_a_run_is_shown(self):
        self.trained()
        self.assertEqual("run/report.html\n", self.report("run").out)
        page = self.page()
        for chart in ("loss", "grad-norm", "lr", "progress", "throughput", "mfu", "memory", "life-axis", "goodput-bar"):
            self.assertIn(chart, page.charts)
        for name, chart in page.charts.items():
            self.assertTrue(chart["img"] and chart["title"], name)
            self.assertGreater(chart["marks"], 3, name)
            self.assertGreater(chart["rows"], 1, f"{name} has no table of its data")
        last = self.metrics()[-1]
        self.assertIn(f"loss {float('%.5g' % last['loss']):g}", page.said())
        self.assertIn("12 of 12, 100.0 %", page.said())
        self.assertRegex(page.said("life"), "resumed|8 to 12")
        self.assertIn("Nothing: every file", page.said("missing"))
        self.assertIn("2 ranks", page.said("environment"))
        shares = re.findall(r"(\d+\.\d) %", page.said("goodput").split("what it is")[1])
        self.assertEqual("100.0", shares[-1])
        self.assertEqual(1000, sum(round(10 * float(share)) for share in shares[:-1]))
        self.report("run")  # its own page is replaced
        self.assertEqual(page.charts, self.page().charts)

    def test_runs_are_compared(self):
        recipe = self.recipe(**{"train.steps": 4, "schedule.warmup_steps": 1})
        self.train(recipe, "run.dir=a", "run.name=a")
        self.train(recipe, "run.dir=b", "run.name=b", "optim.lr=1e-3")
        self.assertIn("add -o FILE", self.report("a", "b", code=2).err)
        self.report("a", "b", "-o", "both.html")
        page = self.page("both.html")
        self.assertRegex(page.said("compared"), r"optim\.lr 0\.003 0\.001\b")
        self.assertNotIn("optim.weight_decay", page.said("compared"))
        self.assertIn("loss", page.charts)

    def test_what_is_broken_is_said(self):
        self.trained()
        run = self.folder / "run"
        lines = (run / "metrics.jsonl").read_text().splitlines()
        wild = dict(json.loads(lines[3]), loss=None, grad_norm=1e300, note="x")
        with open(run / "metrics.jsonl", "wb") as file:
            for line in (*lines[:5], lines[2], "[1, 2]", "no JSON", '{"loss": 1}', '{"step": 1e400}', '{"step": -3}', json.dumps(wild)):
                file.write(line.encode() + b"\n")
            file.write(bytes(range(256)) * 40 + b"\n" + b"x" * (3 << 20) + b"\n" + lines[6].encode() + b"\n" + b'{"step": 9, "lo')
        recipe = (run / "recipe.yaml").read_text()
        (run / "recipe.yaml").write_text(recipe.replace("name: tiny", "name: \"<script>alert(1)</script>\""))
        (run / "goodput.json").write_text('{"starts": [{"began": -1}, 7, {"began": 5e9, "ended": 1, "end": "<b>", "seconds": {"x": -1}}]}')
        (run / "forecast.json").unlink()
        (run / "forecast.json").symlink_to("/etc/passwd")
        (run / "logs" / "suspects.txt").write_bytes(b"\xff\xfe junk\n1e999 n1 7 x\n1 n1 7 <img src=x onerror=alert(1)>\n")
        (run / "logs" / "restarts.jsonl").write_text('{"time": 3}\n{\n{"time": "x"}\n')
        (run / "profile").mkdir()
        (run / "profile" / "lanes.json").write_text('{"ranks": [{"lanes": [{"spans": [[1], [0, -1, 2], "x"]}]}, 5]}')
        self.report("run")
        text = (run / "report.html").read_text()
        self.assertNotIn("<script>alert", text)
        self.assertNotIn("<img", text)
        self.assertNotIn("root:", text)
        said = self.page().said("missing")
        for expected in ("5 lines of metrics.jsonl cannot be read", "2 lines of metrics.jsonl have no step", "a step that is not above",
                         "is torn", "loss was not a finite number in 1 lines", "symbolic link", "starts without a begin"):
            self.assertIn(expected, said)
        self.command(product.ECHELON, "watch", "run")

    def test_single_files_of_a_run_suffice(self):
        self.trained()
        for name in ("metrics.jsonl", "goodput.json", "recipe.yaml", "logs/rank-0.log"):
            only = self.folder / "only"
            (only / "logs").mkdir(parents=True)
            shutil.copy(self.folder / "run" / name, only / name)
            self.report("only")
            self.assertIn("is missing", self.page("only/report.html").said("missing"))
            self.assertTrue(self.command(product.ECHELON, "watch", "only").out)
            shutil.rmtree(only)

    def test_what_is_no_run(self):
        (self.folder / "empty").mkdir()
        (self.folder / "file").write_text("x")
        for command in ("report", "watch"):
            self.assertIn("is no run folder", self.command(product.ECHELON, command, "empty", code=2).err)
            self.assertIn("is not a folder", self.command(product.ECHELON, command, "file", code=2).err)
            self.assertIn("is not a folder", self.command(product.ECHELON, command, "nowhere", code=2).err)
        self.assertEqual([], list((self.folder / "empty").iterdir()))

    def test_what_is_not_its_own_is_not_replaced(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "recipe.yaml").write_text("run: {name: x}\n")
        (self.folder / "thesis.html").write_text("<!doctype html>years of work")
        self.assertIn("was not made by this command", self.report("run", "-o", "thesis.html", code=2).err)
        self.assertIn("is a folder", self.report("run", "-o", "run", code=2).err)
        (self.folder / "link.html").symlink_to("thesis.html")
        self.assertIn("symbolic link", self.report("run", "-o", "link.html", code=2).err)
        self.assertEqual("<!doctype html>years of work", (self.folder / "thesis.html").read_text())

    def test_a_long_run_is_short(self):
        run = self.folder / "run"
        run.mkdir()
        with open(run / "metrics.jsonl", "w") as file:
            for step in range(1, 10001):
                loss = 77.25 if step == 6543 else 3 + 1 / step
                file.write(json.dumps({"step": step, "time": 1.7e9 + step, "loss": loss, "lr": 1e-3, "grad_norm": loss, "step_time_s": 1.0,
                                       "comm_wait_s": 0.1, "data_wait_s": 0.0, "tokens_per_s": 1e4, "mfu": 0.4}) + "\n")
        self.report("run")
        self.assertLess((run / "report.html").stat().st_size, 2 << 20)
        self.assertIn("6543 77.25", (run / "report.html").read_text(), "the spike of one step is gone")

    # -- while it goes on

    def test_the_page_follows_a_run_until_its_end(self):
        recipe = self.run_of_two_ranks(steps=150)
        training = self.start(*self.train_command(recipe, "schedule.warmup_steps=2", ranks=2))
        self.wait_for_step(2, process=training)
        follower = subprocess.Popen([product.ECHELON, "report", "run", "--watch", "1"], cwd=self.folder, stdout=subprocess.DEVNULL)
        self.addCleanup(follower.kill)
        page = self.folder / "run" / "report.html"
        self.wait_for("a page that reloads itself", lambda: page.exists() and 'http-equiv="refresh" content="1"' in page.read_text())
        self.assertEqual(0, training.wait(product.WAIT_S))
        self.assertEqual(0, follower.wait(product.WAIT_S))
        self.assertNotIn('http-equiv="refresh"', page.read_text())
        self.assertIn("150 of 150", self.page().said())

    def on_terminal(self, columns, rows, run="run", **environment):
        """Starts `echelon watch` on a terminal of that size; returns the process and our end of the terminal."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = subprocess.Popen([product.ECHELON, "watch", run], cwd=self.folder, stdin=theirs, stdout=theirs, stderr=theirs,
                                   env=product.environment(TERM="xterm", LC_ALL="C.UTF-8", **environment), start_new_session=True)
        self.addCleanup(process.kill)
        os.close(theirs)
        return process, ours

    def read_terminal(self, ours, until=None):
        text = b""
        while until is None or until not in text:
            try:
                got = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not got:
                break
            text += got
        return text.decode()

    def test_a_terminal_follows_a_run_and_is_left_clean(self):
        self.trained()
        ledger = self.folder / "run" / "goodput.json"
        account = json.loads(ledger.read_text())
        account["starts"][-1].update(end="running", ended=time.time())
        ledger.write_text(json.dumps(account))
        process, ours = self.on_terminal(60, 12)
        begin = self.read_terminal(ours, b"running")
        self.assertIn("\x1b[?1049h", begin)
        # Behind a line as wide as the screen it would erase the last character.
        self.assertIsNone(re.search(r"[^\nHJ\r]\x1b\[[KJ]", begin), begin)
        process.send_signal(signal.SIGINT)
        rest = self.read_terminal(ours)
        self.assertEqual(0, process.wait(product.WAIT_S))
        end = (begin + rest).rpartition("\x1b[?1049l")
        self.assertTrue(end[1], "the other screen was not left")
        self.assertIn("\x1b[?25h", end[0], "the cursor was not shown again")
        self.assertRegex(end[2], r"tiny  running  step 12/12")
        for line in end[2].splitlines():
            self.assertLessEqual(len(re.sub(r"\x1b\[[0-9;]*m", "", line)), 60)

    def test_a_terminal_shows_an_ended_run_once(self):
        self.trained()
        process, ours = self.on_terminal(30, 5, NO_COLOR="1")
        text = self.read_terminal(ours)
        self.assertEqual(0, process.wait(product.WAIT_S))
        shown = text.rpartition("\x1b[?1049l")[2]
        self.assertNotIn("\x1b", shown)
        self.assertEqual(5, len(shown.splitlines()))
        once = self.command(product.ECHELON, "watch", "run", "--once").out
        self.assertNotIn("\x1b", once)
        self.assertIn("finished  step 12/12", once)

    # -- in a browser

    def test_a_browser_shows_it(self):
        program = shutil.which("chromium")
        if not program:
            self.skipTest("needs the Debian package chromium, which set-up does not install because it is large")
        self.trained()
        self.report("run")
        browser = Browser(program, self.folder / "profile-of-browser")
        self.addCleanup(browser.close)
        charts = self.page().charts
        for width, dark in ((1280, False), (360, True)):
            browser.open(self.folder / "run" / "report.html", width, 900, dark)
            self.assertEqual(len(charts), browser.value("document.querySelectorAll('figure.chart .plot svg').length"))
            wide = browser.value("document.documentElement.scrollWidth")
            self.assertLessEqual(wide, width, "the page is wider than the screen")
            empty = browser.value("[...document.querySelectorAll('.plot svg')].filter(svg => { const box = svg.getBBox();"
                                  " return box.width < 100 || box.height < 30; }).length")
            self.assertEqual(0, empty, "drawings without content")
            tops = browser.value("[...document.querySelectorAll('.tile')].map(tile => tile.offsetTop)")
            if width > 860:
                self.assertGreater(tops.count(tops[-1]), 1, "a tile is alone in its row")
        reached = set()
        for _ in range(200):
            browser.press("Tab")
            chart = browser.value("document.activeElement.matches('.plot svg') ? document.activeElement.closest('figure').id : ''")
            if chart == "loss":
                browser.press("ArrowLeft")
                self.assertRegex(browser.value("document.querySelector('#loss .read').textContent"), r"step \d+training [\d.]+")
            reached |= {chart} - {""}
            if len(reached) == len(charts):
                break
        self.assertEqual(set(charts), reached, "drawings that the keyboard does not reach")
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        images = [node.get("name", {}).get("value", "") for node in nodes
                  if node.get("role", {}).get("value") in ("image", "img") and not node.get("ignored")]
        self.assertGreaterEqual(len(images), len(charts))
        self.assertNotIn("", images, "drawings without an accessible name")
        self.assertEqual([], browser.complaints())


if __name__ == "__main__":
    product.main()
