//! Lines with colours, and the terminal that shows them: `maitred top` draws whole frames, and nothing else writes.

use std::fmt;
use std::io::{self, StdoutLock, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetBackgroundColor, SetForegroundColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};

/// How text looks; by default as all other text of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    text: Option<Color>,
    ground: Option<Color>,
    bold: bool,
}

impl Style {
    /// The weight of headings.
    pub(super) const BOLD: Style = Style { text: None, ground: None, bold: true };

    /// Text of this colour.
    pub(super) fn of(text: Color) -> Style {
        Style { text: Some(text), ..Style::default() }
    }

    /// Text of the first colour on the second.
    pub(super) fn on(text: Color, ground: Color) -> Style {
        Style { text: Some(text), ground: Some(ground), bold: false }
    }
}

/// A piece of a line that looks the same throughout. One character is taken for one column: what is wider ends at the edge of
/// the terminal.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    text: String,
    /// Colours and weight.
    pub(super) style: Style,
}

impl Span {
    /// Text as all other text.
    pub(super) fn raw(text: impl Into<String>) -> Span {
        Span::styled(text, Style::default())
    }

    /// Text that looks like this.
    pub(super) fn styled(text: impl Into<String>, style: Style) -> Span {
        Span { text: text.into(), style }
    }
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(pub(super) Vec<Span>);

impl Line {
    /// A row of one piece.
    pub(super) fn styled(text: impl Into<String>, style: Style) -> Line {
        Line(vec![Span::styled(text, style)])
    }

    /// The columns that fit into this width.
    pub(super) fn cut(&self, width: u16) -> Line {
        let mut room = usize::from(width);
        let cut = |span: &Span| {
            let text: String = span.text.chars().take(room).collect();
            room -= text.chars().count();
            Span::styled(text, span.style)
        };
        Line(self.0.iter().map(cut).collect())
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Line {
        Line(spans)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Line {
        Line(vec![Span::raw(text)])
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|span| formatter.write_str(&span.text))
    }
}

/// The terminal of standard output, which is put back as it was when this is dropped, by a panic as well.
#[derive(Debug)]
pub(super) struct Terminal {
    output: StdoutLock<'static>,
    /// Columns and rows of the last frame.
    drawn: (u16, u16),
}

impl Terminal {
    /// Keys come at once from now on, and frames stand on a screen of their own.
    ///
    /// # Errors
    /// What the terminal says.
    pub(super) fn enter() -> io::Result<Terminal> {
        enable_raw_mode()?;
        let mut terminal = Terminal { output: io::stdout().lock(), drawn: (0, 0) };
        queue!(terminal.output, EnterAlternateScreen, DisableLineWrap, Hide)?;
        Ok(terminal)
    }

    /// Columns and rows.
    ///
    /// # Errors
    /// What the terminal says.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        size()
    }

    /// Shows these rows from the first on, in place of those before: as many as the terminal has, cut to its width.
    ///
    /// # Errors
    /// What the terminal says.
    pub(super) fn draw(&mut self, lines: &[Line], (width, height): (u16, u16)) -> io::Result<()> {
        if self.drawn != (width, height) {
            // A terminal that is resized moves what it shows.
            queue!(self.output, Clear(ClearType::All))?;
            self.drawn = (width, height);
        }
        write_frame(&mut self.output, lines, width)?;
        self.output.flush()
    }
}

/// Writes each row over the one that stands there, so that nothing flickers where a terminal shows pieces of a frame.
fn write_frame(output: &mut impl Write, lines: &[Line], width: u16) -> io::Result<()> {
    queue!(output, BeginSynchronizedUpdate)?;
    for (row, line) in (0..).zip(lines) {
        queue!(output, MoveTo(0, row))?;
        for Span { text, style } in line.cut(width).0 {
            if style.bold {
                queue!(output, SetAttribute(Attribute::Bold))?;
            }
            if let Some(color) = style.text {
                queue!(output, SetForegroundColor(color))?;
            }
            if let Some(color) = style.ground {
                queue!(output, SetBackgroundColor(color))?;
            }
            queue!(output, Print(text))?;
            if style != Style::default() {
                queue!(output, SetAttribute(Attribute::Reset))?;
            }
        }
        queue!(output, Clear(ClearType::UntilNewLine))?;
    }
    queue!(output, EndSynchronizedUpdate)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = queue!(self.output, EnableLineWrap, LeaveAlternateScreen, Show);
        let _ = self.output.flush();
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_and_written_over_those_before() {
        let line = Line(vec![
            Span::raw("pool "),
            Span::styled("web", Style::BOLD),
            Span::styled("▁█", Style::of(Color::DarkRed)),
        ]);
        assert_eq!(
            [0, 3, 7, 10, 99].map(|width| line.cut(width).to_string()),
            ["", "poo", "pool we", "pool web▁█", "pool web▁█"]
        );
        let mut written = Vec::new();
        write_frame(&mut written, &[line, Line::default()], 6).unwrap();
        let written = String::from_utf8(written).unwrap();
        assert_eq!(
            written,
            "\u{1b}[?2026h\u{1b}[1;1Hpool \u{1b}[1mw\u{1b}[0m\u{1b}[38;5;1m\u{1b}[0m\u{1b}[K\u{1b}[2;1H\u{1b}[K\u{1b}[?2026l"
        );
    }
}
