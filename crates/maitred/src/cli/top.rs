//! `maitred top`: the status in the terminal, live.
//!
//! One thread reads keys, one waits for signals, one asks the server; all of them only send. The calling thread draws, so that
//! a server that does not answer never keeps a key waiting.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crossterm::event::{self, Event as Input, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use maitred_sys::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;

use super::Top;
use super::control::document;
use super::exit::Error;
use super::screen::{Screen, plain};
use super::terminal::Terminal;
use maitred_config::AdminAddress;

/// Where `/status.json` is not a second old: more often makes nothing newer than the server's own samples.
const INTERVAL_MIN: f64 = 0.1;
/// An hour: a display that is slower is of no use.
const INTERVAL_MAX: f64 = 3600.0;
/// Width of a frame that goes to no terminal.
const WIDTH_DEFAULT: u16 = 100;

/// The value of `--interval`.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches('s').parse::<f64>() {
        Ok(seconds) if (INTERVAL_MIN..=INTERVAL_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!("give seconds from {INTERVAL_MIN} to {INTERVAL_MAX}")),
    }
}

/// What happens while it runs.
enum Event {
    Key(KeyCode, KeyModifiers),
    Resized,
    Signal,
    Status(Result<Value, Error>),
    /// The terminal cannot be read any more.
    Lost(io::Error),
}

/// Runs until the user quits. With `--once`, what to print.
pub fn run(top: &Top, terminal: bool) -> Result<String, Error> {
    let address = top.server.address()?;
    if !top.once && !terminal {
        return Err(Error::usage("standard output is no terminal", "give --once for one frame as text"));
    }
    // Before the terminal is changed: a server that is not there is said in the ordinary way.
    let mut screen = first(&address)?;
    if top.once {
        let width =
            if terminal { terminal::size().map_or(WIDTH_DEFAULT, |(width, _)| width) } else { WIDTH_DEFAULT };
        return Ok(plain(&screen.lines(width)));
    }
    live(&mut screen, address, top.interval).map_err(|error| {
        Error::failed(format_args!("the terminal failed: {error}"), "give --once, or use `maitred status`")
    })?;
    Ok(String::new())
}

/// The server's last minutes, and its present.
fn first(address: &AdminAddress) -> Result<Screen, Error> {
    let status = document(address, "/status.json")?;
    let mut screen = Screen::default();
    // A server of an older version has no such thing, and the charts begin now.
    if let Ok(past) = document(address, "/status/history.json") {
        screen.history = past["seconds"].as_array().cloned().unwrap_or_default();
        // The last second of the history comes with the status as well.
        screen.history.pop();
    }
    screen.take(status);
    Ok(screen)
}

fn live(screen: &mut Screen, address: AdminAddress, interval: Duration) -> io::Result<()> {
    // Before any other thread exists, which Signals asks for.
    let signals = Signals::block()?;
    let (sender, events) = channel();
    let (_running, quit) = channel();
    let mut terminal = Terminal::enter()?;
    start("signals", sender.clone(), move |sender| wait_for_signals(&signals, sender))?;
    start("keys", sender.clone(), read_keys)?;
    start("status", sender, move |sender| ask(&address, interval, &quit, sender))?;
    loop {
        let (width, height) = terminal.size()?;
        terminal.draw(&screen.frame(width, height), (width, height))?;
        // All senders gone means that nothing can come any more.
        let Ok(event) = events.recv() else { return Ok(()) };
        match event {
            Event::Key(key, modifiers) if !press(screen, key, modifiers, height) => return Ok(()),
            Event::Key(..) | Event::Resized => {}
            Event::Signal => return Ok(()),
            Event::Status(Ok(status)) => screen.take(status),
            Event::Status(Err(error)) => {
                let first = error.text.lines().next().unwrap_or_default();
                screen.trouble = Some(first.trim_start_matches("error: ").to_owned());
            }
            Event::Lost(error) => return Err(error),
        }
    }
}

/// Acts on a key; false if it means to quit.
fn press(screen: &mut Screen, key: KeyCode, modifiers: KeyModifiers, height: u16) -> bool {
    let page = i32::from(height.saturating_sub(2).max(1));
    match key {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c' | 'd') if modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char(' ') => screen.paused = !screen.paused,
        KeyCode::Up | KeyCode::Char('k') => screen.move_by(-1),
        KeyCode::Down | KeyCode::Char('j') => screen.move_by(1),
        KeyCode::PageUp => screen.move_by(-page),
        KeyCode::PageDown => screen.move_by(page),
        KeyCode::Home => screen.move_by(i32::MIN),
        KeyCode::End => screen.move_by(i32::MAX),
        _ => {}
    }
    true
}

fn start(
    name: &str,
    sender: Sender<Event>,
    body: impl FnOnce(&Sender<Event>) + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || body(&sender)).map(drop)
}

fn read_keys(sender: &Sender<Event>) {
    loop {
        let event = match event::read() {
            Ok(Input::Key(key)) if key.kind == KeyEventKind::Release => continue,
            Ok(Input::Key(key)) => Event::Key(key.code, key.modifiers),
            Ok(Input::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            Err(error) => {
                let _ = sender.send(Event::Lost(error));
                return;
            }
        };
        if sender.send(event).is_err() {
            return;
        }
    }
}

/// Without this, a hang-up or a kill would leave the terminal as it is.
fn wait_for_signals(signals: &Signals, sender: &Sender<Event>) {
    loop {
        let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], None);
        match signals.next() {
            Ok(None | Some(Signal::User1 | Signal::User2 | Signal::Child)) => {}
            Ok(Some(_)) | Err(_) => return drop(sender.send(Event::Signal)),
        }
    }
}

/// Asks the server again and again, until `quit` is dropped.
fn ask(address: &AdminAddress, interval: Duration, quit: &Receiver<()>, sender: &Sender<Event>) {
    while quit.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        if sender.send(Event::Status(document(address, "/status.json"))).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_of_seconds() {
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(interval("0.5s"), Ok(Duration::from_millis(500)));
        for wrong in ["", "0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_quit_scroll_and_pause() {
        let mut screen = Screen::default();
        let mut key = |key, modifiers| {
            let on = press(&mut screen, key, modifiers, 24);
            (on, screen.scroll, screen.paused)
        };
        let none = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Up, none), (true, 0, false));
        assert_eq!(key(KeyCode::PageDown, none), (true, 22, false));
        assert_eq!(key(KeyCode::Char('k'), none), (true, 21, false));
        assert_eq!(key(KeyCode::End, none), (true, u16::MAX, false));
        assert_eq!(key(KeyCode::Home, none), (true, 0, false));
        assert_eq!(key(KeyCode::Char(' '), none), (true, 0, true));
        assert!(key(KeyCode::Char('c'), none).0);
        for (quit, modifiers) in
            [(KeyCode::Char('q'), none), (KeyCode::Esc, none), (KeyCode::Char('c'), KeyModifiers::CONTROL)]
        {
            assert!(!key(quit, modifiers).0, "{quit:?}");
        }
    }
}
