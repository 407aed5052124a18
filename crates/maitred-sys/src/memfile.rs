//! Memory files (memfd_create(2)): sealed documents, and structures shared between processes.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// A memory file that holds `content` and can never change again, positioned at its start.
///
/// # Errors
/// What memfd_create(2), write(2) or fcntl(2) say.
pub fn sealed(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    sealed_by(name, |file| file.write_all(content))
}

/// The same with what `write` writes, which then need not stand in memory as a whole.
///
/// # Errors
/// As [`sealed`], and what `write` says.
pub fn sealed_by(name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<OwnedFd> {
    let mut file = File::from(create(name)?);
    write(&mut file)?;
    file.rewind()?;
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all)?;
    Ok(file.into())
}

/// Reads a memory file of at most `bytes_max` bytes from its start.
///
/// # Errors
/// `InvalidData` for a larger one, otherwise what lseek(2) or read(2) say.
pub fn read(file: OwnedFd, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = File::from(file);
    file.rewind()?;
    // As large as it has to be: a vector that grows leaves copies behind, and some files hold secrets.
    let length = file.metadata()?.len().min(bytes_max);
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(64));
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {bytes_max} bytes")));
    }
    Ok(content)
}

fn create(name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)
}

/// The content of a sealed memory file, mapped to be read: nothing can change it, and a write to it by mistake ends the process
/// instead of being read by others.
#[derive(Debug)]
pub struct SealedMap {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: bytes that no thread can change.
unsafe impl Send for SealedMap {}
// SAFETY: as above.
unsafe impl Sync for SealedMap {}

impl SealedMap {
    /// Maps a file that [`sealed`] or [`sealed_by`] have made. The file may be closed afterwards.
    ///
    /// # Errors
    /// `InvalidData` if the file is not sealed, or empty; otherwise what fcntl(2), fstat(2) or mmap(2) say.
    pub fn open(file: impl AsFd) -> io::Result<SealedMap> {
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::WRITE) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "memory that could be changed"));
        }
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        if bytes == 0 || bytes > isize::MAX as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{bytes} bytes to map")));
        }
        // Private: before Linux 6.7 a shared mapping of such a file is refused, even if it is only read.
        // SAFETY: the kernel chooses the address, so that no mapping is replaced.
        let address = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, &file, 0)?
        };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SealedMap { address, bytes })
    }
}

impl Deref for SealedMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped for as long as `self` lives, and the file is sealed against writing and shrinking
        // (both checked when it was mapped), so that they stay there and stay the same.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.bytes) }
    }
}

impl Drop for SealedMap {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this size; no reference is left when `self` is dropped.
        // Nothing sensible could be done about an error: the mapping would merely stay.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// A type that several processes may have mapped at once: whatever bytes another process writes, and whenever, every
/// use of it stays defined.
///
/// Implemented for atomics and arrays of them; [`shared!`](crate::shared) defines structures of such fields, and is the
/// way to implement this without `unsafe`.
///
/// # Safety
/// All zeros is a valid value, every bit pattern is a valid value, all access goes through atomics, and dropping it
/// does nothing.
pub unsafe trait Shared: Sync {}

// SAFETY: an integer that is only ever accessed atomically; every bit pattern is a value.
unsafe impl Shared for AtomicU64 {}
// SAFETY: as above.
unsafe impl Shared for AtomicU32 {}
// SAFETY: an array has no bytes but those of its elements.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// Only for [`shared!`](crate::shared): compiles for a [`Shared`] field.
#[doc(hidden)]
pub fn assert_shared<T: Shared>(_: &T) {}

/// Defines structures that [`SharedMap`] can map: each field's type must be [`Shared`].
///
/// ```
/// maitred_sys::shared! {
///     /// A counter.
///     #[repr(transparent)]
///     pub struct Cell(std::sync::atomic::AtomicU64);
///
///     /// Two of them.
///     #[repr(C)]
///     pub struct Row {
///         /// One.
///         pub hits: Cell,
///         /// More.
///         pub misses: [Cell; 4],
///     }
/// }
/// ```
///
/// A field that could be torn or invalid is refused:
///
/// ```compile_fail
/// maitred_sys::shared! {
///     pub struct Row {
///         pub flag: bool,
///     }
/// }
/// ```
///
/// So is a structure with a destructor, which would run in one process while others still use the memory:
///
/// ```compile_fail
/// maitred_sys::shared! {
///     pub struct Row {
///         pub hits: std::sync::atomic::AtomicU64,
///     }
/// }
/// impl Drop for Row {
///     fn drop(&mut self) {}
/// }
/// ```
#[macro_export]
macro_rules! shared {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $type:ty ),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field : $type ),*
        }
        // Moving out of every field by name proves that the list is complete and that there is no destructor.
        const _: fn($name) = |value: $name| {
            let $name { $($field),* } = value;
            $( $crate::memfile::assert_shared(&$field); )*
        };
        #[allow(unsafe_code, reason = "the closure above checks each field")]
        // SAFETY: all fields are `Shared`, which the closure above makes the compiler check, and nothing else is there.
        unsafe impl $crate::memfile::Shared for $name {}
        $crate::shared! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident ( $field_vis:vis $type:ty );
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        $vis struct $name($field_vis $type);
        const _: fn($name) = |value: $name| {
            let $name(field) = value;
            $crate::memfile::assert_shared(&field);
        };
        #[allow(unsafe_code, reason = "the closure above checks the field")]
        // SAFETY: the only field is `Shared`, which the closure above makes the compiler check.
        unsafe impl $crate::memfile::Shared for $name {}
        $crate::shared! { $($rest)* }
    };
}

/// A `T` in a memory file that other processes may have mapped too. The `T` starts as all zeros.
///
/// The file cannot be shrunk, so that no access can end in SIGBUS.
#[derive(Debug)]
pub struct SharedMap<T: Shared> {
    address: NonNull<T>,
    file: OwnedFd,
    owns: PhantomData<T>,
}

// SAFETY: the mapping belongs to the process, not to a thread; a `T` in it is reached by shared reference only, and
// `Shared` implies `Sync`.
unsafe impl<T: Shared> Send for SharedMap<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for SharedMap<T> {}

impl<T: Shared> SharedMap<T> {
    const LAYOUT_FITS: () = assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096);

    /// Makes a new file, all zeros, and maps it.
    ///
    /// # Errors
    /// What memfd_create(2), ftruncate(2), fcntl(2) or mmap(2) say.
    pub fn create(name: &str) -> io::Result<Self> {
        let file = create(name)?;
        rustix::fs::ftruncate(&file, size_of::<T>() as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::open(file)
    }

    /// Maps the file that another process made by [`SharedMap::create`].
    ///
    /// # Errors
    /// `InvalidData` if the file has another size or could be shrunk, otherwise what fstat(2) or mmap(2) say.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let () = Self::LAYOUT_FITS;
        let size = rustix::fs::fstat(&file)?.st_size;
        if u64::try_from(size) != Ok(size_of::<T>() as u64) {
            let text = format!("shared memory of {size} bytes where {} are needed", size_of::<T>());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "shared memory that could be shrunk"));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that no mapping is replaced.
        let address = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), size_of::<T>(), protection, MapFlags::SHARED, &file, 0)?
        };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMap { address, file, owns: PhantomData })
    }

    /// The file, to pass on.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<T: Shared> Deref for SharedMap<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping is page-aligned, as large as `T` (both checked when it was made), sealed against
        // shrinking, and lives as long as `self`; `Shared` promises that any bytes, changed at any time, are a valid `T`.
        unsafe { self.address.as_ref() }
    }
}

impl<T: Shared> Drop for SharedMap<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this size; no reference is left when `self` is dropped.
        // Nothing sensible could be done about an error: the mapping would merely stay.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), size_of::<T>()) };
    }
}

/// A number of `T` in a memory file that other processes may have mapped too. All of them start as zeros.
///
/// The file cannot be shrunk, as that of a [`SharedMap`]. Pages that were never touched take no memory.
#[derive(Debug)]
pub struct SharedSlice<T: Shared> {
    address: NonNull<T>,
    length: usize,
    file: OwnedFd,
    owns: PhantomData<T>,
}

// SAFETY: as for `SharedMap`.
unsafe impl<T: Shared> Send for SharedSlice<T> {}
// SAFETY: as for `SharedMap`.
unsafe impl<T: Shared> Sync for SharedSlice<T> {}

impl<T: Shared> SharedSlice<T> {
    const LAYOUT_FITS: () = assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096);

    /// Makes a new file for so many, all zeros, and maps it.
    ///
    /// # Errors
    /// `InvalidInput` for none, or more than can be addressed; otherwise what memfd_create(2), ftruncate(2), fcntl(2) or mmap(2)
    /// say.
    pub fn create(name: &str, length: usize) -> io::Result<Self> {
        let bytes =
            length.checked_mul(size_of::<T>()).filter(|bytes| *bytes > 0 && *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let file = create(name)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::open(file)
    }

    /// Maps all of a file that another process made by [`SharedSlice::create`].
    ///
    /// # Errors
    /// `InvalidData` if the file has no whole number of `T`, or could be shrunk, otherwise what fstat(2) or mmap(2) say.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let () = Self::LAYOUT_FITS;
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        if bytes == 0 || !bytes.is_multiple_of(size_of::<T>()) || bytes > isize::MAX as usize {
            let text = format!("shared memory of {bytes} bytes, in pieces of {}", size_of::<T>());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "shared memory that could be shrunk"));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so that no mapping is replaced.
        let address =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &file, 0)? };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedSlice { address, length: bytes / size_of::<T>(), file, owns: PhantomData })
    }

    /// The file, to pass on.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<T: Shared> Deref for SharedSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping is page-aligned, has room for `length` (both checked when it was made), is sealed against
        // shrinking, and lives as long as `self`; `Shared` promises that any bytes, changed at any time, are a valid `T`.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.length) }
    }
}

impl<T: Shared> Drop for SharedSlice<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `open` with this size; no reference is left when `self` is dropped.
        // Nothing sensible could be done about an error: the mapping would merely stay.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.length * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    crate::shared! {
        /// One number.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        struct Cell(AtomicU64);

        #[derive(Debug)]
        #[repr(C, align(128))]
        struct Rows {
            first: Cell,
            more: [Cell; 1000],
        }
    }

    #[test]
    fn both_mappings_see_one_memory() {
        let ours = SharedMap::<Rows>::create("test").unwrap();
        let theirs = SharedMap::<Rows>::open(ours.file().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(theirs.more[999].0.load(Relaxed), 0);
        ours.more[999].0.store(7, Relaxed);
        ours.first.0.store(1, Relaxed);
        assert_eq!(theirs.more[999].0.load(Relaxed), 7);
        assert_eq!(theirs.first.0.load(Relaxed), 1);
    }

    #[test]
    fn a_file_of_another_size_or_without_seal_is_refused() {
        let small = SharedMap::<Cell>::create("test").unwrap();
        let file = small.file().try_clone_to_owned().unwrap();
        assert_eq!(SharedMap::<Rows>::open(file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let file = create("test").unwrap();
        rustix::fs::ftruncate(&file, 8).unwrap();
        assert_eq!(SharedMap::<Cell>::open(file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_slice_is_as_long_as_its_file() {
        let ours = SharedSlice::<Cell>::create("test", 1000).unwrap();
        let theirs = SharedSlice::<Cell>::open(ours.file().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((ours.len(), theirs.len()), (1000, 1000));
        ours[999].0.store(7, Relaxed);
        assert_eq!(theirs[999].0.load(Relaxed), 7);
        for length in [0, usize::MAX, usize::MAX / 8] {
            let error = SharedSlice::<Cell>::create("test", length).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{length}");
        }
        for (bytes, sealed) in [(12, true), (0, true), (16, false)] {
            let file = create("test").unwrap();
            rustix::fs::ftruncate(&file, bytes).unwrap();
            if sealed {
                rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
            }
            let error = SharedSlice::<Cell>::open(file).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes} {sealed}");
        }
    }

    #[test]
    fn only_sealed_memory_is_mapped_as_bytes() {
        let map = SealedMap::open(sealed("test", b"hello").unwrap()).unwrap();
        assert_eq!(&*map, b"hello");
        let empty = sealed("test", b"").unwrap();
        assert_eq!(SealedMap::open(empty).unwrap_err().kind(), io::ErrorKind::InvalidData);
        for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::WRITE] {
            let file = File::from(create("test").unwrap());
            file.set_len(8).unwrap();
            rustix::fs::fcntl_add_seals(&file, seals).unwrap();
            assert_eq!(SealedMap::open(file).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn sealed_content_is_read_back_and_cannot_be_written() {
        let file = sealed("test", b"hello").unwrap();
        let mut copy = File::from(file.try_clone().unwrap());
        assert!(copy.write_all(b"x").is_err());
        assert_eq!(read(file.try_clone().unwrap(), 5).unwrap(), b"hello");
        assert_eq!(read(file, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
