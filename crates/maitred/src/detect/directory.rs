//! What kind of application a directory holds. Files are read, nothing is run or imported.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{Application, Kind, NODE_ASSETS, PYTHON_ASSETS, assets, python};

/// More of a file is not read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// More files of a directory are not looked into.
const FILES_MAX: usize = 200;
/// Debian's name of the socket that its alternatives keep.
const FPM_SOCKET: &str = "/run/php/php-fpm.sock";

/// What was found, or `None`. `environment` is the active virtual environment, `socket` that of php-fpm.
pub fn application(dir: &Path, environment: Option<&Path>, socket: Option<PathBuf>) -> Option<Application> {
    let python = python(dir, environment);
    django(dir, &python)
        .or_else(|| python_file(dir, &python))
        .or_else(|| node(dir))
        .or_else(|| rails(dir))
        .or_else(|| php(dir, socket.unwrap_or_else(|| FPM_SOCKET.into())))
        .or_else(|| files(dir))
}

fn adapter(python: &str, target: &str) -> Kind {
    Kind::Command([python, "-m", "maitred", target].map(str::to_owned).to_vec())
}

fn django(dir: &Path, python: &str) -> Option<Application> {
    if !dir.join("manage.py").is_file() {
        return None;
    }
    let packages = children(dir).into_iter().filter(|path| path.join("settings.py").is_file());
    let (package, interface) = packages
        .flat_map(|path| ["wsgi", "asgi"].map(|interface| (path.clone(), interface)))
        .find(|(path, interface)| path.join(format!("{interface}.py")).is_file())?;
    let package = package.file_name()?.to_str()?.to_owned();
    Some(Application {
        name: "Django",
        because: format!("manage.py and {package}/{interface}.py"),
        kind: adapter(python, &format!("{package}.{interface}:application")),
        assets: assets(dir, PYTHON_ASSETS),
    })
}

/// `app = Flask(`, `api = FastAPI(` at the beginning of a line of a file.
fn python_file(dir: &Path, python: &str) -> Option<Application> {
    let is_python = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "py");
    children(dir).into_iter().filter(is_python).find_map(|path| {
        let text = contents(&path)?;
        let (variable, name) = text.lines().find_map(assigned)?;
        let module = path.file_stem()?.to_str()?;
        Some(Application {
            name,
            because: format!("`{variable} = {name}(` in {module}.py"),
            kind: adapter(python, &format!("{module}:{variable}")),
            assets: assets(dir, PYTHON_ASSETS),
        })
    })
}

fn assigned(line: &str) -> Option<(&str, &'static str)> {
    let (variable, value) = line.split_once('=')?;
    let variable = variable.split(':').next()?.trim_end();
    let is_name = !variable.is_empty() && variable.chars().all(|c| c.is_alphanumeric() || c == '_');
    let value = value.trim_start();
    let value = value.strip_prefix("flask.").or_else(|| value.strip_prefix("fastapi.")).unwrap_or(value);
    let name = ["Flask", "FastAPI"]
        .into_iter()
        .find(|name| value.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('(')))?;
    is_name.then_some((variable, name))
}

fn node(dir: &Path) -> Option<Application> {
    let package: serde_json::Value = serde_json::from_str(&contents(&dir.join("package.json"))?).ok()?;
    let depends = |name: &str| package.get("dependencies").and_then(|all| all.get(name)).is_some();
    if depends("next") {
        return Some(Application {
            name: "Next.js",
            because: "`next` in package.json".to_owned(),
            kind: Kind::Server {
                url: "http://127.0.0.1:3000".into(),
                start: "npx next start -p 3000".into(),
            },
            assets: Vec::new(),
        });
    }
    if !depends("express") {
        return None;
    }
    let main = package.get("main").and_then(serde_json::Value::as_str);
    let names = main.into_iter().chain(["server.js", "app.js", "index.js"]);
    let program = names.into_iter().find(|name| dir.join(name).is_file())?;
    Some(Application {
        name: "Express",
        because: format!("`express` in package.json, and {program}"),
        kind: Kind::Command(node_command(dir, program)),
        assets: assets(dir, NODE_ASSETS),
    })
}

/// How a program of Node.js is started: as it is if it names the adapter itself.
pub fn node_command(dir: &Path, program: &str) -> Vec<String> {
    let text = contents(&dir.join(program)).unwrap_or_default();
    let names_adapter = ["'maitred'", "\"maitred\""].iter().any(|name| text.contains(name));
    let words: &[&str] =
        if names_adapter { &["node", program] } else { &["node", "--require", "maitred/register", program] };
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn rails(dir: &Path) -> Option<Application> {
    (dir.join("Gemfile").is_file() && dir.join("config/application.rb").is_file()).then(|| Application {
        name: "Rails",
        because: "Gemfile and config/application.rb".to_owned(),
        kind: Kind::Server {
            url: "http://127.0.0.1:3000".into(),
            start: "bundle exec puma -b tcp://127.0.0.1:3000".into(),
        },
        assets: Vec::new(),
    })
}

fn php(dir: &Path, socket: PathBuf) -> Option<Application> {
    let root = ["public", "."].into_iter().find(|root| dir.join(root).join("index.php").is_file())?;
    let (name, because) = if dir.join("wp-load.php").is_file() {
        ("WordPress", "wp-load.php")
    } else if dir.join("artisan").is_file() {
        ("Laravel", "artisan and public/index.php")
    } else if root == "public" {
        ("PHP", "public/index.php")
    } else {
        ("PHP", "index.php")
    };
    Some(Application {
        name,
        because: because.to_owned(),
        kind: Kind::Php { root: root.to_owned(), socket },
        assets: Vec::new(),
    })
}

fn files(dir: &Path) -> Option<Application> {
    let root = ["dist", "build", "public", "."]
        .into_iter()
        .find(|root| dir.join(root).join("index.html").is_file())?;
    Some(Application {
        name: "Files",
        because: if root == "." { "index.html".to_owned() } else { format!("{root}/index.html") },
        kind: Kind::Files(root.to_owned()),
        assets: Vec::new(),
    })
}

/// In order of their names, so that the same directory always gives the same.
fn children(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    found.sort();
    found.truncate(FILES_MAX);
    found
}

fn contents(path: &Path) -> Option<String> {
    // What is no regular file could make the reader wait.
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
