//! What came of a macro: for people, for programs, for continuous integration.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::Sanitized;

/// How a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was done, or held.
    Passed,
    /// It did not hold, ran out or was refused.
    Failed,
    /// It makes no sense here.
    Skipped,
}

/// What came of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The file.
    pub file: Sanitized,
    /// Its line, counted from 1.
    pub line: usize,
    /// What the line asks for.
    pub text: Sanitized,
    /// How it went.
    pub verdict: Verdict,
    /// What was seen, or why it failed or was skipped.
    pub detail: Sanitized,
    /// Number of the last decode step by then.
    pub step: u64,
    /// Step boundaries that the line took.
    pub steps: u64,
}

/// What came of a macro. It holds no wall-clock time, so the same macro on the same target gives the same report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MacroReport {
    /// The macro's file.
    pub name: Sanitized,
    /// Whether every line was carried out and none failed.
    pub passed: bool,
    /// Step boundaries in all.
    pub steps: u64,
    /// Lines after the one that ended the macro.
    pub not_run: usize,
    /// The lines carried out, in order.
    pub outcomes: Vec<Outcome>,
}

impl fmt::Display for Outcome {
    /// In one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.verdict {
            Verdict::Passed => '✓',
            Verdict::Failed => '✗',
            Verdict::Skipped => '-',
        };
        write!(f, "{sign} {}:{} {}", self.file, self.line, self.text)?;
        if !self.detail.is_empty() {
            write!(f, "  [{}]", self.detail)?;
        }
        write!(f, "  step {}", self.step)?;
        match self.steps {
            0 => Ok(()),
            steps => write!(f, " (+{steps})"),
        }
    }
}

impl MacroReport {
    /// Lines that failed.
    pub fn failures(&self) -> usize {
        self.count(Verdict::Failed)
    }

    /// In one line.
    pub fn verdict(&self) -> String {
        let Self { name, steps, not_run, outcomes, .. } = self;
        let (failed, skipped, lines) = (self.failures(), self.count(Verdict::Skipped), outcomes.len());
        let word = if self.passed { "passed" } else { "FAILED" };
        format!("{name} {word}: {lines} lines, {failed} failed, {skipped} skipped, {not_run} not run, {steps} steps")
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    /// As JUnit XML: the macro is a suite, each line a test case.
    pub fn junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        // Writing into a string cannot fail.
        let _ = self.write_junit(&mut xml);
        xml
    }

    fn write_junit(&self, xml: &mut String) -> fmt::Result {
        let name = Escaped(&self.name);
        let (tests, failures, skipped) = (self.outcomes.len(), self.failures(), self.count(Verdict::Skipped));
        let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"");
        writeln!(xml, "<testsuites {counts}>\n  <testsuite name=\"{name}\" {counts}>")?;
        for outcome in &self.outcomes {
            let (file, text, detail) = (Escaped(&outcome.file), Escaped(&outcome.text), Escaped(&outcome.detail));
            writeln!(
                xml,
                "    <testcase classname=\"{file}\" name=\"{}: {text}\" file=\"{file}\" line=\"{}\">",
                outcome.line, outcome.line
            )?;
            match outcome.verdict {
                Verdict::Passed if outcome.detail.is_empty() => {}
                Verdict::Passed => writeln!(xml, "      <system-out>{detail}</system-out>")?,
                Verdict::Failed => {
                    writeln!(xml, "      <failure message=\"{detail}\">at step {}</failure>", outcome.step)?;
                }
                Verdict::Skipped => writeln!(xml, "      <skipped message=\"{detail}\"/>")?,
            }
            writeln!(xml, "    </testcase>")?;
        }
        writeln!(xml, "  </testsuite>\n</testsuites>")
    }
}

/// Text as XML takes it in attributes and between tags.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                // XML 1.0 has no way to write these.
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                control if control.is_control() => f.write_char('\u{fffd}')?,
                plain => f.write_char(plain)?,
            }
        }
        Ok(())
    }
}
