"""An administrator of a database."""

import re

from kit import expect, step

POLICIES = ("content-security-policy", "x-webkit-csp", "x-content-security-policy")
WITHOUT = ("last-modified", "etag", "expires", "set-cookie", *POLICIES)
TABLE = "CREATE TABLE things (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(200)) CHARACTER SET utf8mb4"


def _token(page):
    found = re.search(r'name="token" value="([^"]+)"', page.text) or re.search(r'token:"([^"]+)"', page.text)
    expect(found, f"no token, status {page.status}: {page.text[-300:]}")
    return found[1].replace("&quot;", '"').replace("&amp;", "&")


def _sql(user, token, query):
    """A query as the page asks for it: its answer."""
    form = {"ajax_request": "true", "db": "wordpress", "sql_query": query, "token": token, "server": "1"}
    return user.post("/index.php?route=/sql", {"X-Requested-With": "XMLHttpRequest"}, form=form)


def _login(user, password):
    first = user.get("/index.php")
    session = re.search(r'name="set_session" value="([^"]+)"', first.text)
    form = {"pma_username": "wordpress", "pma_password": password, "server": "1", "token": _token(first)}
    return user.post("/index.php?route=/", form={**form, "set_session": session[1], "route": "/"})


@step
def login(user):
    """the login page, scripts and styles, a wrong password, login"""
    user.see("page", user.get("/"), body=False, without=(*WITHOUT, "content-length"))
    for path in ("/js/dist/functions.js", "/themes/pmahomme/css/theme.css", "/libraries/constants.php", "/missing"):
        user.see(path, user.get(path), without=WITHOUT)
    wrong = _login(user.another(), "wrong")
    user.note("wrong", [wrong.status, "Access denied" in wrong.text])
    done = _login(user, "secret")
    expect(done.status == 302, f"no login: {done.status} {done.text[-300:]}")
    user.note("login", done.status)
    cookies = done.all("set-cookie")
    scheme = user.protocol.startswith("https")
    secure = ["; secure" in each.lower() for each in cookies if "=deleted" not in each]
    expect(secure and secure == [scheme] * len(secure), f"not of this scheme: {cookies}")


@step
def queries(user):
    """a table, rows, queries, a wrong one, across a reload"""
    token = _token(user.get("/index.php?route=/"))
    expect(_sql(user, token, TABLE).json()["success"], "no table")
    for number in range(8):
        if number == 4:
            user.reload()
        answer = _sql(user, token, f"INSERT INTO things (name) VALUES ('é {number}')")
        expect(answer.status == 200 and answer.json()["success"], f"row {number}: {answer.text[:300]}")
    found = _sql(user, token, "SELECT name, id * 1000 FROM things ORDER BY id").json()
    expect(found["success"] and "é 7" in found["message"], f"{found}"[:400])
    user.note("wrong", _sql(user, token, "SELECT nothing FROM nowhere").json()["success"])
    page = user.get("/index.php?route=/database/structure&db=wordpress")
    user.note("structure", [page.status, "things" in page.text])


@step
def files(user):
    """an import of 50,000 rows from a file, an export of them"""
    token = _token(user.get("/index.php?route=/"))
    values = [",\n".join(f"('row {number} é')" for number in range(start, start + 1000)) for start in range(0, 50_000, 1000)]
    text = "".join(f"INSERT INTO things (name) VALUES {each};\n" for each in values)
    form = {"token": token, "db": "wordpress", "import_type": "database", "format": "sql", "charset_of_file": "utf-8"}
    form |= {"noplugin": "x", "sql_compatibility": "NONE", "ajax_request": "true", "server": "1"}
    made = user.post("/index.php?route=/import", form=form, files={"import_file": ("rows.sql", text.encode(), "application/sql")})
    expect(made.status == 200, f"no import: {made.status} {made.text[-300:]}")
    form = {"token": token, "db": "wordpress", "table": "things", "export_type": "table", "what": "csv", "server": "1"}
    form |= {"csv_separator": ",", "csv_enclosed": '"', "csv_escaped": '"', "csv_terminated": "AUTO", "csv_null": "NULL"}
    form |= {"quick_or_custom": "custom", "output_format": "sendit", "filename_template": "@TABLE@", "charset": "utf-8"}
    form |= {"allrows": "1", "csv_structure_or_data": "data", "compression": "none", "csv_data": ""}
    got = user.see("export", user.post("/index.php?route=/export", form=form), without=WITHOUT)
    expect(got.text.count("row ") == 50_000, f"{got.status}, {got.text.count('row ')} rows, {got.text[:200]}")
