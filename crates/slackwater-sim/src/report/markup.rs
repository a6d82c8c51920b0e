//! Writes XML and HTML: elements nest by construction, and every text and attribute is escaped.
//!
//! The output is valid as both: names in lower case, attributes in double quotes, empty elements
//! closed with a slash.

use core::fmt::{self, Display, Write};

/// Markup being written.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

/// A name and a value.
pub(super) type Attribute<'a> = (&'a str, &'a dyn Display);

impl Markup {
    /// Returns the markup.
    pub(super) fn finish(self) -> String {
        self.0
    }

    /// Writes an element with what `inside` writes.
    pub(super) fn element(
        &mut self,
        name: &str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        self.0.push('>');
        inside(self);
        self.close(name);
    }

    /// Writes an element with nothing but text.
    pub(super) fn line(&mut self, name: &str, attributes: &[Attribute<'_>], text: impl Display) {
        self.element(name, attributes, |markup| markup.text(text));
    }

    /// Writes an element without anything inside.
    pub(super) fn leaf(&mut self, name: &str, attributes: &[Attribute<'_>]) {
        self.open(name, attributes);
        self.0.push_str("/>\n");
    }

    /// Writes text.
    pub(super) fn text(&mut self, text: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
    }

    /// Writes trusted markup without escaping it: our constants, or the output of a [`Markup`].
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    fn open(&mut self, name: &str, attributes: &[Attribute<'_>]) {
        self.0.push('<');
        self.0.push_str(name);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            let _ = write!(Escaped(&mut self.0), "{value}");
            self.0.push('"');
        }
    }

    fn close(&mut self, name: &str) {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push_str(">\n");
    }
}

/// A string that escapes text for markup, and replaces characters that XML does not allow.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\t' | '\n' => self.0.push(c),
                '\u{0}'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                _ => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut markup = Markup::default();
        let hostile = "</td><script>\"'&\u{1}é";
        markup.element("td", &[("title", &hostile)], |markup| {
            markup.leaf("br", &[]);
            markup.text(hostile);
        });
        let safe = "&lt;/td&gt;&lt;script&gt;&quot;&#39;&amp;\u{fffd}é";
        assert_eq!(
            markup.finish(),
            format!("<td title=\"{safe}\"><br/>\n{safe}</td>\n")
        );
    }
}
