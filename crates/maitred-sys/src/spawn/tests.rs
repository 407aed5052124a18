use std::io::Write;

use super::*;

/// A pipe's two ends.
fn pipe() -> (File, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (reader.into(), writer)
}

/// What a shell script writes to standard output, and how it ends.
fn run(script: &str, change: impl for<'a, 'b> FnOnce(&'a mut Command<'b>)) -> (String, Exit) {
    let (mut reader, writer) = pipe();
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).stdout(writer.as_fd());
    change(&mut command);
    let child = command.spawn().unwrap();
    drop(command);
    drop(writer);
    let mut output = String::new();
    reader.read_to_string(&mut output).unwrap();
    (output, child.wait().unwrap())
}

#[test]
fn status_signal_and_output_come_back() {
    assert_eq!(run("echo out; exit 3", |_| ()), ("out\n".to_owned(), Exit::Status(3)));
    assert_eq!(run("kill -9 $$", |_| ()).1, Exit::Signal(9));
    assert_eq!(Exit::Signal(9).to_string(), "was killed by SIGKILL");
    assert_eq!(Exit::Status(3).to_string(), "exited with status 3");
}

#[test]
fn environment_directory_and_first_argument_are_set() {
    let (output, _) = run("echo $A-$B-$PWD-$0", |command| {
        command.env("A", "0").env("A", "1").env("B", "2").env_remove("B").directory("/").arg("zero");
    });
    assert_eq!(output, "1--/-zero\n");
}

#[test]
fn a_process_can_be_told_its_own_number() {
    let (output, _) = run("test $LISTEN_PID = $$ && echo $LISTEN_PID-$A", |command| {
        command.env("LISTEN_PID", "1").listen_pid().env("A", "a");
    });
    let number = output.strip_suffix("-a\n").unwrap();
    assert!(number.parse::<u32>().unwrap() > 1, "{output:?}");
}

#[test]
fn descriptors_land_in_order_even_when_their_numbers_clash() {
    // Sources whose numbers lie in the target range, in the opposite order, so that dup2 in that order would overwrite.
    let pipes: Vec<_> = (0..7).map(|_| pipe()).collect();
    let mut command = Command::new("sh");
    let script = (3..10).map(|number| format!("echo {number} >&{number};")).collect::<String>();
    command.arg("-c").arg(script);
    for (_, writer) in pipes.iter().rev() {
        command.descriptor(writer.as_fd());
    }
    let child = command.spawn().unwrap();
    drop(command);
    assert_eq!(child.wait().unwrap(), Exit::Status(0));
    for (place, (mut reader, writer)) in pipes.into_iter().rev().enumerate() {
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("{}\n", place + 3));
    }
}

#[test]
fn nothing_else_is_inherited() {
    // A descriptor without close-on-exec, as a parent may leave behind.
    let (_reader, writer) = pipe();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let (output, _) = run("ls /proc/$$/fd", |_| ());
    let numbers: Vec<&str> =
        output.lines().filter(|number| !["0", "1", "2", "10"].contains(number)).collect();
    // dash keeps no descriptor of its own for -c; `10` and above would be a shell's own.
    assert!(numbers.is_empty(), "{numbers:?}");
}

#[test]
fn standard_input_is_empty() {
    assert_eq!(run("cat; readlink /proc/$$/fd/0", |_| ()).0, "/dev/null\n");
}

#[test]
fn signals_are_as_at_a_fresh_start() {
    let (output, _) = run("grep -E '^Sig(Blk|Ign|Cgt)' /proc/$$/status | cut -f2", |_| ());
    let masks: Vec<_> = output.lines().map(|mask| u64::from_str_radix(mask, 16).unwrap()).collect();
    // SIGPIPE, which Rust ignores, is the one that would show. 32 and 33 are the C library's own.
    assert_eq!(masks[0], 0, "blocked");
    assert_eq!(masks[1] & !(3 << 31), 0, "ignored");
}

#[test]
fn no_new_privs_and_group_are_set() {
    let (output, _) =
        run("grep NoNewPrivs /proc/$$/status | cut -f2; cut -d' ' -f1,5 /proc/$$/stat", |command| {
            command.no_new_privs().new_group();
        });
    let mut lines = output.lines();
    assert_eq!(lines.next(), Some("1"));
    let (pid, group) = lines.next().unwrap().split_once(' ').unwrap();
    assert_eq!(pid, group);
}

#[test]
fn root_can_change_the_account() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (output, _) = run("id -u; id -g; id -G", |command| {
        command.account(Account::new("nobody", 65534, 65534).unwrap());
    });
    assert_eq!(output, "65534\n65534\n65534\n");
}

#[test]
fn a_failed_start_says_what_failed() {
    let error = Command::new("/no/such/program").spawn().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().starts_with("/no/such/program: executing it:"), "{error}");
    let error = Command::new("maitred-no-such-program").spawn().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"#!/bin/sh\n").unwrap();
    let error = Command::new(file.path()).spawn().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let error = Command::new("true").directory("/no/such/directory").spawn().unwrap_err();
    assert!(error.to_string().contains("changing to directory /no/such/directory"), "{error}");
}

#[test]
fn an_end_is_seen_on_the_descriptor_and_signals_arrive() {
    let (_reader, writer) = pipe();
    let child = Command::new("sleep").arg("1000").stdout(writer.as_fd()).spawn().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    child.terminate().unwrap();
    let mut wait = [rustix::event::PollFd::new(&child, rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut wait, None).unwrap(), 1);
    assert_eq!(child.try_wait().unwrap(), Some(Exit::Signal(15)));
    assert!(child.try_wait().is_err());
    child.kill().unwrap();
}

/// The pipe's other end is closed when the last of them has gone.
#[test]
fn what_a_process_leaves_in_its_group_is_asked_to_end() {
    let (mut reader, writer) = pipe();
    let mut command = Command::new("sh");
    command.arg("-c").arg("sleep 1000 & echo gone").stdout(writer.as_fd()).new_group();
    let child = command.spawn().unwrap();
    drop(command);
    drop(writer);
    let mut line = [0; 5];
    reader.read_exact(&mut line).unwrap();
    let mut ended = [rustix::event::PollFd::new(&child, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ended, None).unwrap();
    assert_eq!(child.try_wait().unwrap(), Some(Exit::Status(0)));
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn only_a_child_is_adopted() {
    let mut sleeping = Command::new("/bin/sleep");
    sleeping.arg("1000").new_group();
    let child = sleeping.spawn().unwrap();
    let adopted = Child::adopt(child.pid()).unwrap();
    assert!(adopted.leads_group && adopted.try_wait().unwrap().is_none());
    adopted.kill().unwrap();
    assert_eq!(adopted.wait().unwrap(), Exit::Signal(libc::SIGKILL));
    assert!(Child::adopt(child.pid()).is_err(), "it was reaped");
    assert!(
        Child::adopt(std::process::id()).is_err() && Child::adopt(1).is_err() && Child::adopt(0).is_err()
    );
}
