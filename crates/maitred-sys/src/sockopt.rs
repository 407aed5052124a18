//! Options of sockets that rustix does not have.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Attaches the classic-BPF program that gives a new connection to bucket `table[CPU that received its SYN]` of the
/// `SO_REUSEPORT` group that `socket` belongs to: socket(7), `SO_ATTACH_REUSEPORT_CBPF`. For a CPU beyond the table it is the
/// CPU's number mod `buckets`. Buckets count in the order in which they began to listen.
///
/// # Errors
/// What setsockopt(2) says; `InvalidInput` for zero buckets.
pub fn steer_by_cpu(socket: impl AsFd, table: &[u16], buckets: u16) -> io::Result<()> {
    if buckets == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // A program for some hundred CPUs may be more than `net.core.optmem_max`: then any bucket is better than none.
    attach(&socket, cpu_program(table, buckets)).or_else(|_| attach(&socket, cpu_program(&[], buckets)))
}

/// Attaches the classic-BPF program that gives a datagram of QUIC to the socket that its destination connection id names, in
/// the `SO_REUSEPORT` group of UDP sockets that `socket` belongs to. The sockets count in the order in which they were bound.
///
/// The number of the socket is the first byte of the id, xor the low byte of a mixture of its bytes 2 to 5; for a number beyond
/// `sockets`, modulo that. With `constants` `[x, k, l]` and these bytes as number `w`, the first one highest, the mixture is
/// `h = (w ^ x) * k; h ^= h >> 15; h *= l; h ^= h >> 13`, all in 32 bits. The id is at byte 1 behind a short header, and at byte
/// 6 of a long one (RFC 8999 section 5). A datagram that ends before goes to the first socket.
///
/// # Errors
/// What setsockopt(2) says; `InvalidInput` for no socket.
pub fn steer_datagrams(socket: impl AsFd, constants: [u32; 3], sockets: u16) -> io::Result<()> {
    if sockets == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    attach(socket, datagram_program(constants, sockets))
}

fn attach(socket: impl AsFd, mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let option = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &option)
}

fn datagram_program([x, k, l]: [u32; 3], sockets: u16) -> Vec<libc::sock_filter> {
    use libc::{
        BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_IMM, BPF_IND, BPF_JA, BPF_JMP, BPF_JSET, BPF_LD, BPF_LDX,
        BPF_MEM,
    };
    use libc::{BPF_MISC, BPF_MOD, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST, BPF_STX, BPF_TAX, BPF_W, BPF_XOR};
    const BYTE: u32 = BPF_LD | BPF_B;
    const OF_CONSTANT: u32 = BPF_ALU | libc::BPF_K;
    const OF_X: u32 = BPF_ALU | libc::BPF_X;
    let (place, mask) = (0, 1);
    [
        (BYTE | BPF_ABS, 0),
        // X: where the id begins.
        (BPF_JMP | BPF_JSET | libc::BPF_K, 0x80),
        (BPF_LDX | BPF_IMM, 1),
        (BPF_JMP | BPF_JA, 1),
        (BPF_LDX | BPF_IMM, 6),
        (BPF_STX, place),
        (BPF_LD | BPF_W | BPF_IND, 2),
        (OF_CONSTANT | BPF_XOR, x),
        (OF_CONSTANT | BPF_MUL, k),
        (BPF_MISC | BPF_TAX, 0),
        (OF_CONSTANT | BPF_RSH, 15),
        (OF_X | BPF_XOR, 0),
        (OF_CONSTANT | BPF_MUL, l),
        (BPF_MISC | BPF_TAX, 0),
        (OF_CONSTANT | BPF_RSH, 13),
        (OF_X | BPF_XOR, 0),
        (OF_CONSTANT | BPF_AND, 0xff),
        (BPF_ST, mask),
        (BPF_LDX | BPF_MEM, place),
        (BYTE | BPF_IND, 0),
        (BPF_LDX | BPF_MEM, mask),
        (OF_X | BPF_XOR, 0),
        (OF_CONSTANT | BPF_MOD, u32::from(sockets)),
        (BPF_RET | libc::BPF_A, 0),
    ]
    .into_iter()
    .map(|(code, k)| {
        // The only condition: a long header is two steps further.
        let jump = if code == BPF_JMP | BPF_JSET | libc::BPF_K { 2 } else { 0 };
        step(code, jump, 0, k)
    })
    .collect()
}

fn step(code: u32, jt: usize, jf: usize, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jt as u8, jf: jf as u8, k }
}

fn cpu_program(table: &[u16], buckets: u16) -> Vec<libc::sock_filter> {
    // SKF_AD_OFF is negative by design: the kernel takes loads from there as ancillary data, here the CPU's number.
    let cpu = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, cpu)];
    if !table.is_empty() {
        let known = search(0, table);
        program.push(step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, table.len() as u32));
        program.push(step(libc::BPF_JMP | libc::BPF_JA, 0, 0, known.len() as u32));
        program.extend(known);
    }
    program.push(step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, u32::from(buckets)));
    program.push(step(libc::BPF_RET | libc::BPF_A, 0, 0, 0));
    program
}

/// Looks the accumulator up in a table that begins with `first`, by halves. Each way through it ends with a return.
fn search(first: usize, table: &[u16]) -> Vec<libc::sock_filter> {
    if let Some(bucket) = table.first()
        && table.iter().all(|one| one == bucket)
    {
        return vec![step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::from(*bucket))];
    }
    let (low, high) = table.split_at(table.len() / 2);
    let middle = first + low.len();
    let (low, high) = (search(first, low), search(middle, high));
    let is_high = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    // A conditional jump reaches no further than 255.
    let mut steps = match low.len() {
        near @ 0..=255 => vec![step(is_high, near, 0, middle as u32)],
        far => {
            vec![step(is_high, 0, 1, middle as u32), step(libc::BPF_JMP | libc::BPF_JA, 0, 0, far as u32)]
        }
    };
    steps.extend(low);
    steps.extend(high);
    steps
}

/// Takes the program away again, if there is one: connections go to the buckets by hash (`SO_DETACH_REUSEPORT_BPF`).
///
/// # Errors
/// What setsockopt(2) says, but for the absence of a program.
pub fn steer_by_hash(socket: impl AsFd) -> io::Result<()> {
    match set(socket, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &0_i32) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// Holds new connections back until their first bytes are there, for about `timeout` (whole seconds); none for zero.
/// See tcp(7), `TCP_DEFER_ACCEPT`.
///
/// # Errors
/// What setsockopt(2) says.
pub fn defer_accept(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    let seconds = i32::try_from(timeout.as_secs()).unwrap_or(i32::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)
}

/// `SO_PASSRIGHTS` of Linux 6.16, by its number on all architectures that are served; libc does not have it yet.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has the kernel refuse descriptors (`SCM_RIGHTS`) that the other end of a Unix socket would pass: a sender
/// that tries gets `EPERM`. Connections that a listening socket accepts have it as well.
///
/// # Errors
/// What setsockopt(2) says; `ENOPROTOOPT` before Linux 6.16.
pub fn refuse_descriptors(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, SO_PASSRIGHTS, &0_i32)
}

fn set<T>(socket: impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes at `value`, which is that large; what a `sock_fprog` points to lives in the
    // caller until this returns, and the kernel copies it.
    let result = unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn both_are_accepted_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        defer_accept(&listener, Duration::from_secs(5)).unwrap();
        defer_accept(&listener, Duration::ZERO).unwrap();
        let group =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
                .unwrap();
        rustix::net::sockopt::set_socket_reuseport(&group, true).unwrap();
        steer_by_cpu(&group, &[], 4).unwrap();
        steer_by_cpu(&group, &[0, 2, 1, 3], 4).unwrap();
        // As many CPUs as can be described, without a run of equal buckets: too much for the kernel's default.
        let many: Vec<u16> = (0..1024).map(|cpu| cpu * 7 % 256).collect();
        steer_by_cpu(&group, &many, 256).unwrap();
        assert!(steer_by_cpu(&group, &[], 0).is_err());
    }

    #[test]
    fn the_program_for_datagrams_is_accepted_by_the_kernel() {
        let group =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
                .unwrap();
        rustix::net::sockopt::set_socket_reuseport(&group, true).unwrap();
        steer_datagrams(&group, [1, 3, 5], 255).unwrap();
        assert!(steer_datagrams(&group, [1, 3, 5], 0).is_err());
    }

    /// What the program returns on that CPU, as the kernel would run it.
    fn run(program: &[libc::sock_filter], cpu: u32) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let one = program[at];
            at += 1;
            let jump = |condition: bool| usize::from(if condition { one.jt } else { one.jf });
            match u32::from(one.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => accumulator = cpu,
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => {
                    at += jump(accumulator >= one.k);
                }
                code if code == libc::BPF_JMP | libc::BPF_JA => at += one.k as usize,
                code if code == libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K => accumulator %= one.k,
                code if code == libc::BPF_RET | libc::BPF_A => return accumulator,
                code if code == libc::BPF_RET | libc::BPF_K => return one.k,
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn the_program_finds_each_cpus_bucket() {
        let tables: [Vec<u16>; 6] = [
            vec![],
            vec![3],
            vec![0, 4, 1, 5, 2, 6, 3, 7],
            vec![0, 0, 0, 1, 1, 1, 1],
            (0..1024).map(|cpu| cpu / 2).collect(),
            (0..1024).map(|cpu| cpu * 7 % 256).collect(),
        ];
        for table in tables {
            let program = cpu_program(&table, 256);
            // BPF_MAXINSNS
            assert!(program.len() <= 4096, "{}", program.len());
            for (cpu, bucket) in table.iter().enumerate() {
                assert_eq!(run(&program, cpu as u32), u32::from(*bucket), "CPU {cpu}");
            }
            let beyond = table.len() as u32 + 5;
            assert_eq!(run(&program, beyond), beyond % 256);
        }
    }
}
