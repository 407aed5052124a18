//! Another program in this very process (execve(2)), with some of its descriptors.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::io::{FdFlags, fcntl_setfd};

/// Replaces the program of this process: number, children, working directory, pending signals and the calling thread's signal
/// mask stay; other threads end. Of the descriptors only those in `keep` stay, under their numbers, and those that are not
/// close-on-exec anyway. `arguments` begin with the program's own name.
///
/// Returns only if that fails, with everything as it was: what execve(2) says, or `InvalidInput` for a zero byte.
pub fn replace(
    program: &Path,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
    keep: &[BorrowedFd<'_>],
) -> io::Error {
    let prepared = || -> io::Result<_> {
        let program = CString::new(program.as_os_str().as_bytes())?;
        let arguments = arguments.iter().map(|argument| Ok(CString::new(argument.as_bytes())?));
        let variable = |(name, value): &(OsString, OsString)| {
            Ok(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?)
        };
        let environment = environment.iter().map(variable);
        Ok((
            program,
            arguments.collect::<io::Result<Vec<_>>>()?,
            environment.collect::<io::Result<Vec<_>>>()?,
        ))
    };
    let (program, arguments, environment) = match prepared() {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    let error = match set(keep, FdFlags::empty()) {
        Ok(()) => {
            // SAFETY: a C string and two arrays of C strings that end with a null pointer; all of them live until the call
            // returns, if it does.
            unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
            io::Error::last_os_error()
        }
        Err(error) => error,
    };
    // Flags of open descriptors can be set.
    let _ = set(keep, FdFlags::CLOEXEC);
    error
}

fn set(descriptors: &[BorrowedFd<'_>], flags: FdFlags) -> io::Result<()> {
    descriptors.iter().try_for_each(|descriptor| Ok(fcntl_setfd(descriptor, flags)?))
}

/// The arguments of this process, with the program's own name, and its environment, but for the variables `without`.
pub fn invocation(without: &[&str]) -> (Vec<OsString>, Vec<(OsString, OsString)>) {
    let kept = |(name, _): &(OsString, OsString)| !without.iter().any(|one| name == one);
    (std::env::args_os().collect(), std::env::vars_os().filter(kept).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_failure_changes_nothing() {
        let file = File::open("/dev/null").unwrap();
        let keep = [file.as_fd()];
        let name = [OsString::from("x")];
        let error = replace(Path::new("/no/such/program"), &name, &[], &keep);
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let zero = OsString::from_vec(b"a\0b".to_vec());
        assert_eq!(replace(Path::new("/bin/true"), &[zero], &[], &keep).kind(), io::ErrorKind::InvalidInput);
        assert_eq!(rustix::io::fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
    }

    #[test]
    fn variables_are_left_out() {
        let (arguments, environment) = invocation(&["PATH"]);
        assert!(!arguments.is_empty());
        assert!(environment.iter().all(|(name, _)| name != "PATH"));
    }
}
