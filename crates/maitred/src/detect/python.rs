//! Applications of Python: which module has one, or makes one.

use std::path::Path;

use super::place::Place;
use super::{Advice, Application, Kind};

/// What makes an application, as it stands in a source, and what it is called for people.
const FRAMEWORKS: &[(&str, &str)] = &[
    ("Flask", "Flask"),
    ("APIFlask", "Flask"),
    ("FastAPI", "FastAPI"),
    ("Starlette", "Starlette"),
    ("Quart", "Quart"),
    ("Litestar", "Litestar"),
    ("Sanic", "Sanic"),
    ("Bottle", "Bottle"),
    ("falcon.App", "Falcon"),
    ("falcon.asgi.App", "Falcon"),
    ("get_wsgi_application", "Django"),
    ("get_asgi_application", "Django"),
    ("create_app", "Python"),
    ("make_app", "Python"),
];
/// Functions that make an application.
const FACTORIES: &[&str] = &["create_app", "make_app", "create_application", "get_app"];
/// Modules in which an application is likely to be, the likeliest first.
const LIKELY: &[&str] = &["wsgi", "asgi", "main", "app", "application", "server", "api", "__init__"];
/// Directories that are a package without an `__init__.py`.
const PACKAGES: &[&str] = &["app", "api"];
/// Beginnings of names of modules in which an application is there for something else.
const OTHERS: &[&str] = &["test", "conftest", "setup", "manage", "celery", "worker", "example"];
/// What each tool for environments is known by, and what makes the environment in the directory.
const TOOLS: &[(&str, &str)] = &[
    ("uv.lock", "uv sync"),
    ("poetry.lock", "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install"),
    ("Pipfile", "PIPENV_VENV_IN_PROJECT=1 pipenv install"),
    ("pdm.lock", "pdm install"),
];
/// Where the interpreter of an environment is.
const ENVIRONMENTS: &[&str] = &[".venv", "venv"];

/// What a module has.
#[derive(Debug, PartialEq, Eq)]
enum Has {
    /// A variable with an application; the framework.
    Variable(String, &'static str, String),
    /// A function that makes one; the framework.
    Factory(&'static str, &'static str),
    /// A function of that kind, which has to be given something.
    Needs(&'static str),
}

/// A module that was found.
struct Module {
    /// The module's file, for people.
    file: String,
    /// The module's name, from the directory in which the process is started.
    name: String,
    /// The directory in which the process is started, if it is not this one.
    cwd: Option<String>,
    has: Has,
}

/// The application of a project of Django: the `wsgi` or `asgi` of the package with the settings.
///
/// # Errors
/// The project has no such package.
pub fn django(place: Place<'_>, known: Option<&Path>) -> Result<Application, Advice> {
    let nested = |name: &String| {
        let dir = place.path(name);
        let inner = Place::new(&dir).directories().into_iter().map(move |inner| format!("{name}/{inner}"));
        inner.collect::<Vec<String>>()
    };
    let near = place.directories();
    let far: Vec<String> = near.iter().flat_map(nested).collect();
    let interfaces = near.iter().chain(&far).flat_map(|package| ["wsgi", "asgi"].map(|name| (package, name)));
    let Some((package, interface)) = interfaces.into_iter().find(|(package, interface)| {
        place.text(&format!("{package}/{interface}.py")).is_some_and(|text| is_djangos(&text))
    }) else {
        return Err(Advice::new(
            "manage.py is there, and no package with a wsgi.py or asgi.py",
            "write the application's name: [pool.web] command = [\"python3\", \"-m\", \"maitred\", \"module:application\"]",
        ));
    };
    let target = format!("{}.{interface}:application", package.replace('/', "."));
    Ok(started("Django", format!("manage.py and {package}/{interface}.py"), &target, place, known))
}

/// An application of any framework, in a module at the top or in a package.
pub fn application(place: Place<'_>, known: Option<&Path>) -> Option<Result<Application, Advice>> {
    let found = modules(place);
    let is = |wanted: fn(&Has) -> bool| found.iter().find(|module| wanted(&module.has));
    let module = is(|has| matches!(has, Has::Variable(..)))
        .or_else(|| is(|has| matches!(has, Has::Factory(..))))
        .or_else(|| is(|_| true))?;
    let (target, name, because) = match &module.has {
        Has::Variable(variable, name, line) => {
            (format!("{}:{variable}", module.name), *name, format!("`{line}` in {}", module.file))
        }
        Has::Factory(function, name) => {
            (format!("{}:{function}()", module.name), *name, format!("`def {function}(` in {}", module.file))
        }
        Has::Needs(function) => {
            return Some(Err(Advice::new(
                format!("{function} in {} has to be given something", module.file),
                format!(
                    "write a module wsgi.py: from {} import {function}; application = {function}(…)",
                    module.name
                ),
            )));
        }
    };
    let mut found = started(name, because, &target, place, known);
    if let Some(cwd) = &module.cwd {
        use_environment_above(&mut found, place, cwd);
        found.cwd = Some(cwd.clone());
    }
    Some(Ok(found))
}

fn started(
    name: &'static str,
    because: String,
    target: &str,
    place: Place<'_>,
    known: Option<&Path>,
) -> Application {
    let (python, first) = interpreter_to_be(place, known);
    let command = [python.as_str(), "-m", "maitred", target].map(str::to_owned).to_vec();
    let mut found = Application::new(name, because, Kind::Command(command));
    found.first.extend(first);
    found
}

/// The Python that an application of a directory has: the one that is known, that of its own environment, or the system's.
pub fn interpreter(place: Place<'_>, known: Option<&Path>) -> String {
    if let Some(known) = known {
        return known.display().to_string();
    }
    let own = ENVIRONMENTS.iter().find(|name| place.has(&format!("{name}/bin/python3")));
    own.map_or_else(|| "python3".to_owned(), |name| format!("{name}/bin/python3"))
}

/// The same, or the one that the project's tool for environments will make, and its command.
fn interpreter_to_be(place: Place<'_>, known: Option<&Path>) -> (String, Option<String>) {
    let found = interpreter(place, known);
    let tool = TOOLS.iter().find(|(file, _)| found == "python3" && place.has(file));
    match tool {
        Some((_, make)) => (".venv/bin/python3".to_owned(), Some((*make).to_owned())),
        None => (found, None),
    }
}

/// Has an application that is started in `cwd`, below a place, use the environment of the place, if it has none of its own.
pub fn use_environment_above(found: &mut Application, place: Place<'_>, cwd: &str) {
    let Kind::Command(command) = &mut found.kind else { return };
    let Some(python) = command.first_mut() else { return };
    let environments = ENVIRONMENTS.iter().any(|name| place.has(&format!("{cwd}/{name}/bin/python3")));
    if environments || TOOLS.iter().any(|(file, _)| place.has(&format!("{cwd}/{file}"))) {
        return;
    }
    let above = "../".repeat(cwd.split('/').count());
    if ENVIRONMENTS.iter().any(|name| is_in(python, name)) {
        *python = format!("{above}{python}");
    } else if python == "python3" {
        let (there, first) = interpreter_to_be(place, None);
        if there != "python3" {
            *python = format!("{above}{there}");
        }
        found.first.extend(first);
    }
}

fn is_in(python: &str, environment: &str) -> bool {
    python.strip_prefix(environment).is_some_and(|rest| rest.starts_with('/'))
}

/// All modules that have something, the likeliest first.
fn modules(place: Place<'_>) -> Vec<Module> {
    let mut found: Vec<Module> = ordered(place.files(".py"))
        .into_iter()
        .filter_map(|module| {
            let file = format!("{module}.py");
            let has = look(&place.text(&file)?)?;
            Some(Module { file, name: module, cwd: None, has })
        })
        .collect();
    for package in packages(place) {
        let dir = place.path(&package);
        let inside = Place::new(&dir);
        let modules = ordered(inside.files(".py"));
        found.extend(modules.iter().filter_map(|module| {
            let text = inside.text(&format!("{module}.py"))?;
            let has = look(&text)?;
            let file = format!("{package}/{module}.py");
            if imports_siblings(&text, &package, &modules) {
                return Some(Module { file, name: module.clone(), cwd: Some(package.clone()), has });
            }
            let name = if module == "__init__" { package.clone() } else { format!("{package}.{module}") };
            Some(Module { file, name, cwd: None, has })
        }));
    }
    found
}

/// Packages at the top, that of pyproject.toml first.
fn packages(place: Place<'_>) -> Vec<String> {
    let is_other = |name: &String| OTHERS.iter().any(|other| name.starts_with(other));
    let is_package = |name: &String| {
        place.has(&format!("{name}/__init__.py")) || PACKAGES.contains(&name.as_str()) && !is_other(name)
    };
    let mut found: Vec<String> = place.directories().into_iter().filter(is_package).collect();
    let own = project_name(place);
    found.sort_by_key(|name| own.as_ref() != Some(name));
    found
}

/// The package that pyproject.toml is about.
fn project_name(place: Place<'_>) -> Option<String> {
    let project: toml::Table = place.text("pyproject.toml")?.parse().ok()?;
    let poetry = project.get("tool").and_then(|tool| tool.get("poetry"));
    let name = project.get("project").or(poetry)?.get("name")?.as_str()?;
    Some(name.replace('-', "_"))
}

/// Names of modules by how likely they are; without those that are there for something else.
fn ordered(files: Vec<String>) -> Vec<String> {
    let names = files.into_iter().filter_map(|file| Some(file.strip_suffix(".py")?.to_owned()));
    let mut names: Vec<String> =
        names.filter(|name| !OTHERS.iter().any(|other| name.starts_with(other))).collect();
    names.sort_by_key(|name| LIKELY.iter().position(|likely| likely == name).unwrap_or(LIKELY.len()));
    names
}

/// Whether a module imports those beside it by their own names, so that its directory has to be the first of Python's path.
fn imports_siblings(text: &str, package: &str, siblings: &[String]) -> bool {
    let imported = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("from ").or_else(|| line.strip_prefix("import "))?;
        rest.split([' ', '.', ',']).next()
    });
    let mut imported = imported.peekable();
    imported
        .any(|name| name != package && name != "__init__" && siblings.iter().any(|sibling| sibling == name))
}

/// What a source has, in lines that are not indented.
fn look(text: &str) -> Option<Has> {
    if let Some((variable, name)) = text.lines().find_map(assigned) {
        let line = format!("{variable} = {name}");
        let framework =
            if name == "create_app" || name == "make_app" { framework_in(text) } else { named(&name) };
        return Some(Has::Variable(variable, framework, format!("{line}(")));
    }
    if let Some(variable) = text.lines().find_map(interface) {
        let line = format!("def {variable}(");
        return Some(Has::Variable(variable.to_owned(), "Python", line));
    }
    let function = FACTORIES.iter().find(|name| text.lines().any(|line| is_definition(line, name)))?;
    Some(if needs_arguments(text, function) {
        Has::Needs(function)
    } else {
        Has::Factory(function, framework_in(text))
    })
}

/// `app = Flask(`, `api: FastAPI = fastapi.FastAPI(` at the beginning of a line: the variable, and what is called.
fn assigned(line: &str) -> Option<(String, String)> {
    let (variable, value) = line.split_once('=')?;
    let variable = variable.split(':').next()?.trim_end();
    let is_name = variable.chars().all(|c| c.is_alphanumeric() || c == '_') && !variable.is_empty();
    let (called, _) = value.trim_start().split_once('(')?;
    let called = called.trim_end();
    let known = FRAMEWORKS.iter().any(|(name, _)| is_called(called, name));
    (is_name && known).then(|| (variable.to_owned(), called.to_owned()))
}

fn is_called(called: &str, name: &str) -> bool {
    called == name || called.strip_suffix(name).is_some_and(|before| before.ends_with('.'))
}

fn named(called: &str) -> &'static str {
    let found = FRAMEWORKS.iter().find(|(name, _)| is_called(called, name));
    found.map_or("Python", |(_, framework)| framework)
}

/// The framework that a source makes an application of, wherever in it.
fn framework_in(text: &str) -> &'static str {
    let made = |name: &str| text.split(name).skip(1).any(|rest| rest.trim_start().starts_with('('));
    let found = FRAMEWORKS.iter().find(|(name, framework)| *framework != "Python" && made(name));
    found.map_or("Python", |(_, framework)| framework)
}

/// An application without a framework: a function with the arguments of WSGI, ASGI or RSGI.
fn interface(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
    let (name, arguments) = rest.split_once('(')?;
    let arguments = arguments.replace(' ', "");
    let known = ["environ,start_response)", "scope,receive,send)", "scope,protocol)"];
    known.iter().any(|known| arguments.starts_with(known)).then_some(name)
}

fn is_definition(line: &str, name: &str) -> bool {
    line.strip_prefix("def ")
        .and_then(|rest| rest.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with('('))
}

/// Whether a function has a parameter without a default.
fn needs_arguments(text: &str, function: &str) -> bool {
    let Some((_, rest)) = text.split_once(&format!("def {function}(")) else { return false };
    let (mut depth, mut parameters) = (0, vec![String::new()]);
    for c in rest.chars() {
        match c {
            ')' if depth == 0 => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => parameters.push(String::new()),
            _ => {}
        }
        if let Some(last) = parameters.last_mut().filter(|_| c != ',' || depth > 0) {
            last.push(c);
        }
    }
    let needed = |text: &String| {
        let text = text.trim();
        !text.is_empty()
            && !text.starts_with('*')
            && text != "/"
            && !text.contains('=')
            && !text.starts_with('#')
    };
    parameters.iter().any(needed)
}

/// Whether this is the wsgi.py or asgi.py of a project, and not one of something else.
fn is_djangos(text: &str) -> bool {
    text.is_empty() || text.contains("django") || text.contains("application")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_and_what_makes_them_are_told_apart() {
        let variable =
            |name: &str, framework, line: &str| Some(Has::Variable(name.into(), framework, line.into()));
        assert_eq!(look("app = flask.Flask(__name__)\n"), variable("app", "Flask", "app = flask.Flask("));
        assert_eq!(look("api: FastAPI = FastAPI()\n"), variable("api", "FastAPI", "api = FastAPI("));
        assert_eq!(
            look("def create_app(config=None):\n    app = Flask(__name__)\n"),
            Some(Has::Factory("create_app", "Flask"))
        );
        assert_eq!(look("def make_app(\n    config,\n):\n    pass\n"), Some(Has::Needs("make_app")));
        assert_eq!(
            look("def create_app(*, a: dict[str, int] = {}) -> Flask:\n"),
            Some(Has::Factory("create_app", "Python"))
        );
        assert_eq!(
            look("application = create_app('x')\n"),
            variable("application", "Python", "application = create_app(")
        );
        assert_eq!(look("async def app(scope, receive, send):\n"), variable("app", "Python", "def app("));
        assert_eq!(look("async def app(scope, protocol):\n"), variable("app", "Python", "def app("));
        assert_eq!(look("if True:\n    app = Flask(__name__)\n"), None);
        assert_eq!(look("x = Flasks(1)\n"), None);
    }

    #[test]
    fn what_imports_modules_beside_it_is_started_there() {
        let siblings = ["main".to_owned(), "database".to_owned()];
        assert!(imports_siblings("from database import x\n", "app", &siblings));
        assert!(!imports_siblings("from app.database import x\nfrom . import database\n", "app", &siblings));
    }
}
