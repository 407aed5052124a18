//! The `priority` field (RFC 9218).

/// What a client requests for the order of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// Whether the client can use parts of the response: then it shares with others of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field, a dictionary of RFC 8941. What is not understood is passed over, as
    /// 9218-4 asks for unknown parameters and for values out of range.
    pub fn parse(value: &[u8]) -> Self {
        Self::default().with(value)
    }

    /// Goes on with a further line of the field: lines are one dictionary, of which the last member of a name counts.
    pub fn with(self, value: &[u8]) -> Self {
        let mut priority = self;
        for member in value.split(|byte| *byte == b',') {
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}
