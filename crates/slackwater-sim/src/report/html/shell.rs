//! The common parts of every page: head, colours and rules.
//!
//! A content security policy in the head forbids scripts and everything external, so the page shows
//! only what is in its file.

use crate::report::markup::Markup;
use crate::report::svg::{PALETTE, RULES};
use core::fmt::Write;

/// Returns a page with this title.
pub(super) fn page(title: &str, inside: impl FnOnce(&mut Markup)) -> String {
    let mut markup = Markup::default();
    markup.raw("<!doctype html>\n");
    markup.element("html", &[("lang", &"en")], |markup| {
        markup.element("head", &[], |markup| {
            markup.raw("\n");
            markup.leaf("meta", &[("charset", &"utf-8")]);
            markup.leaf(
                "meta",
                &[
                    ("name", &"viewport"),
                    ("content", &"width=device-width, initial-scale=1"),
                ],
            );
            markup.leaf(
                "meta",
                &[("name", &"color-scheme"), ("content", &"light dark")],
            );
            let policy = "default-src 'none'; style-src 'unsafe-inline'";
            markup.leaf(
                "meta",
                &[
                    ("http-equiv", &"Content-Security-Policy"),
                    ("content", &policy),
                ],
            );
            markup.line("title", &[], title);
            markup.element("style", &[], |markup| {
                markup.raw(&colours());
                markup.raw(include_str!("page.css"));
                markup.raw(RULES);
            });
        });
        markup.element("body", &[], |markup| markup.element("main", &[], inside));
    });
    markup.finish()
}

/// Returns the palette as CSS variables: light, dark if the reader's system is, light on paper.
fn colours() -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    for (name, in_light, in_dark) in PALETTE {
        // Writing to a string cannot fail.
        let _ = write!(light, " --{name}: {in_light};");
        let _ = write!(dark, " --{name}: {in_dark};");
    }
    format!(
        "\n:root {{{light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n"
    )
}
