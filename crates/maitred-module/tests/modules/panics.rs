//! For tests: a module that panics, in the place that `config` names.

use maitred_module::{Config, Module, Outcome, OwnedResponse, Request, Response, module};

module!(begin);

#[derive(serde::Deserialize)]
struct Settings {
    #[serde(default)]
    place: String,
}

fn begin(config: Config<'_>) -> Result<Module, String> {
    let Settings { place } = config.parse()?;
    match place.as_str() {
        "init" => panic!("in init, as told"),
        "refuse" => return Err("it does not want to".to_owned()),
        _ => {}
    }
    let module = Module::new().may_answer_later().on_request(on_request).on_response(|request, head| {
        head.set("X-Before", "set");
        assert!(!request.path().starts_with(b"/filter"), "in the filter, as told");
        head.set("X-After", "set");
    });
    Ok(module.on_start(move || match place.as_str() {
        "start" => panic!("in start, as told"),
        "refuse to start" => Err("not now".to_owned()),
        _ => Ok(()),
    }))
}

fn on_request(request: Request<'_>) -> Outcome {
    match request.path() {
        b"/panic" => panic!("in a handler, as told"),
        b"/panic/number" => std::panic::panic_any(7),
        b"/later/panic" => request.answer_by_helper(|| panic!("in a helper, as told")),
        b"/later/drop" => request.later(drop),
        b"/later/pass" => request.later(|ticket| assert!(ticket.pass())),
        b"/later/bad" => request.later(|ticket| assert!(!ticket.answer(&Response::new(7, &[], b"")))),
        b"/later/thread" => request.later(|ticket| {
            let answer = move || ticket.answer(&Response::text(b"from a thread\n"));
            drop(std::thread::spawn(answer));
        }),
        b"/later" => request.answer_by_helper(|| OwnedResponse::json("{}")),
        _ => request.answer(&Response::text(b"fine\n")),
    }
}
