"""Looks at the status page in a headless browser, as a reader, a keyboard and a screen reader would.

    browser.py CHROMIUM ADMIN_URL SITE_URL MAITRED [SCREENSHOTS]

Says "seen" once it has seen the requests that stand at the gate, and exits with 0 if all was as it has to be. With the
directory SCREENSHOTS, it writes the pictures of the documentation there.
"""

import base64
import pathlib
import subprocess
import sys
import time
import urllib.request

from devtools import Browser

# Contrast of text that WCAG 2.2, 1.4.3 asks for.
CONTRAST_MIN = 4.5
# How long the pictures of the documentation are prepared.
TRAFFIC_SECS = 30

CONTRAST = """(() => {
    const channel = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const ground = element => {
        for (; element; element = element.parentElement) {
            const colour = numbers(getComputedStyle(element).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return numbers(getComputedStyle(document.body).backgroundColor);
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (!text || !element.checkVisibility() || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
        const pair = [luminance(numbers(getComputedStyle(element).color)), luminance(ground(element))].sort((a, b) => b - a);
        const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (contrast < %s) found.push(`${element.tagName}.${element.className} ${contrast.toFixed(2)}: ${element.textContent}`);
    }
    return found;
})()""" % CONTRAST_MIN


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def look_at_numbers(browser, site):
    """Everything is there, and moves without a reload."""
    browser.until("document.querySelectorAll('#threads tr').length === 2", "a row per thread")
    browser.until("document.querySelector('#live').textContent === 'live'", "it says that it is live")
    score = "document.querySelector('#pools article .score')"
    browser.until(f"{score}.textContent.match(/W/g).length === 5", "five slots at work")
    browser.until(f"/^15 slots: .*5 busy/.test({score}.getAttribute('aria-label'))", "the same in words")
    browser.until("/exited with status 1/.test(document.querySelectorAll('#pools article')[1].innerText)", "why a pool fails")
    browser.until("/Affinity: off/.test(document.querySelector('#affinity').textContent)", "how CPUs were chosen")
    check(browser.evaluate("document.querySelectorAll('#listens tr').length") >= 1, "a row per bucket")
    before = browser.evaluate("document.querySelector('#totals').innerText")
    for _ in range(40):
        urllib.request.urlopen(site + "/a.txt").read()
    tile = "[...document.querySelectorAll('#totals div')].find(tile => tile.innerText.startsWith('2xx')).querySelector('dd span')"
    browser.until(f"Number({tile}.textContent) >= 40", "requests are counted")
    check(browser.evaluate("document.querySelector('#totals').innerText") != before, "the totals have changed")
    route = "[...document.querySelectorAll('#routes tr')].find(row => row.cells[2].textContent === 'files')"
    browser.until(f"{route} && Number({route}.cells[5].textContent) >= 40", "the route of the files has answered them")
    browser.until("/routes without a response: [0-9]/.test(document.querySelector('#unused').textContent)", "routes without a response")
    browser.until(
        "document.querySelector('#chart-requests_per_second polyline').getAttribute('points').split(' ').length >= 2",
        "a chart has points",
    )
    browser.until(
        r"/^Requests \/ s: .* at most in \d+\u00a0s/.test(document.querySelector('#charts svg').getAttribute('aria-label'))",
        "a chart says in words what it shows",
    )


def look_at_requests(browser):
    """Those that stand at the gate are under way, with where they are."""
    found = "[...document.querySelectorAll('#under-way tr')].filter(row => /^GET \\/app\\/wait$/.test(row.cells[2].textContent))"
    browser.until(f"{found}.length === 5", "requests under way are shown")
    browser.until(f"{found}.every(row => row.cells[1].textContent === 'application')", "they are at the application")


def look_at_units(browser):
    """A figure and its unit are never on two lines."""
    torn = browser.evaluate(r"""[...document.querySelectorAll('.tiles dd span, .tiles dd small, #pools p, figcaption b, .axis span, td')]
        .map(element => element.textContent)
        .filter(text => /\d (%|B|[kMGT]B|µs|ms|s|min|h|d|new|\/)(?![a-z])/.test(text) || /\/ s\b/.test(text))""")
    check(not torn, f"a unit can come to another line than its figure: {torn}")
    sent = "[...document.querySelectorAll('#tiles div')].find(tile => tile.innerText.startsWith('Sent')).querySelector('dd span')"
    check(browser.evaluate(f"/^[\\d.,]+\u00a0k?B\u00a0\\/\u00a0s$/.test({sent}.textContent)"), "what is sent has its unit")


def look_at_health(browser):
    """One look: lights with words, what to do, and the way to the details."""
    light = "[...document.querySelectorAll('#lights a')].find(light => light.innerText.startsWith('Pools'))"
    words = f"{light}.className === 'bad' && /trouble\\s+broken$/.test({light}.innerText)"
    whole = "/^Not all is well: 1 /.test(document.querySelector('#verdict').textContent)"
    advice = "/^Pools broken: .*slot .* What to do: /.test(document.querySelector('#advice').innerText)"
    browser.until(f"{words} && {whole} && {advice}", "a light, the whole and the advice say that a pool fails")
    fine = browser.evaluate("[...document.querySelectorAll('#lights a.ok span')].map(span => span.textContent)")
    check(fine == ["✓ fine"] * 3, f"configuration, load and limits are fine: {fine}")
    browser.evaluate(f"{light}.focus()")
    browser.key("Enter", 13, "\r")
    check(browser.evaluate("document.activeElement.id") == "h-pools", "enter goes to the section")
    text = "made <b>up</b> \u202e\u0007"
    line = f"showErrors({{ errors: [{{ unix_time: 0, level: 'warn', text: {text!r} }}] }})"
    shown = browser.evaluate(f"({line}, document.querySelector('#errors').textContent)")
    check(shown == "1970-01-01T00:00:00Z warn: made <b>up</b> \ufffd\ufffd", f"lines are text: {shown}")


def use_shortcuts(browser):
    """Keys that the list of keys names."""
    opened = "document.querySelector('#keys').open"
    browser.key("?", 191, "?")
    check(browser.evaluate(opened), "? opens the list")
    browser.key("Escape", 27)
    check(not browser.evaluate(opened), "escape closes the list")
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = [browser.evaluate(ground)]
    for theme in ("light", "dark", "auto"):
        browser.key("t", 84, "t")
        check(browser.evaluate("localStorage.getItem('theme')") == theme, f"{theme} is kept")
        seen.append(browser.evaluate(ground))
    check(seen[1] != seen[2] and seen[0] == seen[3], f"the theme changes: {seen}")
    browser.key("e", 69, "e")
    check(browser.evaluate("document.activeElement.id") == "h-errors", "e goes to the errors")
    browser.evaluate("document.querySelector('#past').open = true")
    browser.key("Escape", 27)
    check(browser.evaluate("document.querySelectorAll('details[open]').length") == 0, "escape closes details")


def look_at_structure(browser):
    """What assistive programs need: names, heads of tables, a language."""
    nameless = browser.evaluate("""[...document.querySelectorAll('svg, [role=img], [role=region], button')].filter(element =>
        !(element.getAttribute('aria-label') || element.getAttribute('aria-labelledby') || element.textContent.trim())).length""")
    check(nameless == 0, f"{nameless} elements have no name")
    headless = browser.evaluate("""[...document.querySelectorAll('tbody tr')].filter(row =>
        row.children.length && !(row.firstElementChild.tagName === 'TH' && row.firstElementChild.scope === 'row')).length""")
    check(headless == 0, f"{headless} rows have no head")
    check(browser.evaluate("document.documentElement.lang") == "en", "the language is said")
    check(browser.evaluate("document.querySelectorAll('[style], [onclick]').length") == 0, "nothing is written into elements")


def use_keyboard(browser):
    """Every control is reached with the tab key and worked with enter or space, and is seen to be."""
    browser.evaluate("document.body.focus()")
    reached = []
    for _ in range(60):
        browser.key("Tab", 9)
        name = browser.evaluate("document.activeElement.id || document.activeElement.tagName + ' ' + document.activeElement.innerText")
        if name in reached:
            break
        reached.append(name)
        outline = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        check(name.startswith("BODY") or outline != "none", f"the focus on {name} cannot be seen")
    for wanted in ("pause", "theme", "help", "SUMMARY The charts as a table", "SUMMARY Slots of app", "SUMMARY Slots of broken", "A metrics"):
        check(wanted in reached, f"{wanted} is not among {reached}")
    pressed = "document.querySelector('#pause').getAttribute('aria-pressed')"
    browser.evaluate("document.querySelector('#pause').focus()")
    browser.key("Enter", 13, "\r")
    check(browser.evaluate(pressed) == "true", "enter pauses")
    check(browser.evaluate("document.querySelector('#live').textContent") == "paused", "it says so")
    browser.key(" ", 32, " ")
    check(browser.evaluate(pressed) == "false", "space goes on")
    for details, rows in (("#past", "#past-rows tr"), ("#pools details", "#pools article tbody tr")):
        browser.evaluate(f"document.querySelector('{details} summary').focus()")
        browser.key("Enter", 13, "\r")
        browser.until(f"document.querySelectorAll('{rows}').length >= 1", f"enter opens {details}")


def look_at_colours(browser):
    grounds = {}
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        grounds[scheme] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        faint = browser.evaluate(CONTRAST)
        check(not faint, f"{scheme}: too little contrast: {faint}")
    check(grounds["light"] != grounds["dark"], f"light and dark are the same: {grounds}")


def size(browser, width, height):
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)


def look_at_phone(browser):
    size(browser, 360, 740)
    width = browser.evaluate("document.documentElement.scrollWidth")
    check(width <= 360, f"the page is {width} wide on a phone of 360")
    browser.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    browser.until("document.querySelectorAll('#pools article tbody tr').length >= 12", "the slots are shown")
    wide = browser.evaluate("""[...document.querySelectorAll('.scroll')].filter(table => table.scrollWidth > Math.min(table.clientWidth, 360))
        .map(table => `${table.getAttribute('aria-label') || table.getAttribute('aria-labelledby')}: ${table.scrollWidth}`)""")
    check(not wide, f"tables are wider than a phone: {wide}")
    nameless = browser.evaluate("""[...document.querySelectorAll('tbody th, tbody td')].filter(cell => getComputedStyle(cell, '::before')
        .content.length < 3).map(cell => cell.outerHTML)""")
    check(not nameless, f"figures without a name: {nameless}")
    browser.evaluate("document.querySelectorAll('details').forEach(details => details.open = false)")


def survive_reload(browser, maitred, admin, token):
    """The stream ends with the old worker process, and the page comes back by itself."""
    points = "document.querySelector('#chart-connections polyline').getAttribute('points').split(' ').length"
    browser.until(f"{points} > 1", "there is a line")
    before = browser.evaluate(points)
    command = [maitred, "reload", "--admin", admin.removeprefix("http://"), "--token", token]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    browser.until("/generation 2,/.test(document.querySelector('#about').textContent)", "it shows the new process")
    browser.until("document.querySelector('#live').textContent === 'live'", "it is live again")
    check(browser.evaluate(points) >= before, "the charts go on")


def make_traffic(site):
    """Something for the charts to show: requests that come and go for a while."""
    until = time.monotonic() + TRAFFIC_SECS
    while (left := until - time.monotonic()) > 0:
        for path in ["/a.txt"] * (3 + int(left) % 7) + ["/app/hello"] * 2:
            urllib.request.urlopen(site + path).read()
        time.sleep(0.01 * (int(left) % 5))


def take_pictures(browser, directory):
    browser.evaluate("document.querySelectorAll('details').forEach(details => details.open = false)")
    browser.evaluate("document.activeElement.blur()")
    for name, width, scheme, end in (
        ("status-page", 1180, "light", "#h-listens"),
        ("status-page-dark", 1180, "dark", "#h-errors"),
        ("status-page-phone", 390, "dark", "#h-errors"),
    ):
        size(browser, width, 800)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        height = browser.evaluate("document.querySelector('%s').getBoundingClientRect().top + scrollY" % end)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        pathlib.Path(directory, name + ".png").write_bytes(base64.b64decode(picture["data"]))


def main(chromium, admin, site, maitred, token, screenshots=None):
    page = admin + "/status"
    with Browser(chromium) as browser:
        size(browser, 1180, 900)
        browser.call("Page.navigate", url=page)
        look_at_numbers(browser, site)
        look_at_requests(browser)
        look_at_units(browser)
        look_at_health(browser)
        look_at_structure(browser)
        look_at_colours(browser)
        look_at_phone(browser)
        if screenshots:
            make_traffic(site)
            take_pictures(browser, screenshots)
        size(browser, 1180, 900)
        print("seen", flush=True)
        use_keyboard(browser)
        use_shortcuts(browser)
        look_at_colours(browser)
        check(not browser.complaints(), f"the console says {browser.complaints()}")
        check(set(browser.requested()) == {page, page + "/events"}, f"it asked for {browser.requested()}")
        survive_reload(browser, maitred, admin, token)


main(*sys.argv[1:])
