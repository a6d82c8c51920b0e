//! `[sticky]`: how requests that belong together find the same replica.

use super::idle::{idle_keys, is_other};
use super::kinds::{FIELD, is_name};
use crate::table::{
    self, Boolean, Choice, Maybe, Or, Span, Within, Written, field, named, settings,
};
use crate::toml_reader::values::{Unfit, quote};
use crate::toml_reader::{Reader, Remark, Severity};
use core::time::Duration;
use http::HeaderName;

settings! {
    /// How requests that belong together find the same replica.
    pub struct StickySettings in "sticky" {
        /// What ties requests to the same replica: nothing, a cookie set here, a header, or the
        /// client's address.
        by: StickyBy = StickyBy::None, Choice(StickyBy::NAMES);
        /// The cookie's name.
        cookie: String = "slackwater".to_owned(), COOKIE;
        /// The cookie's `Max-Age`. `"session"`: until the browser is closed.
        cookie_age: Option<Duration> = None,
            Or("session", Within(Span, Duration::from_secs(1)..=Duration::from_hours(10 * 366 * 24)));
        /// The cookie's `Secure`: TLS only.
        cookie_secure: bool = false, Boolean;
        /// The cookie's `SameSite`.
        cookie_same_site: SameSite = SameSite::Lax, Choice(&SameSite::NAMES);
        /// The header whose value decides.
        header: Option<HeaderName> = None, Maybe(FIELD), "required with `\"header\"`";
    }
}

const COOKIE: Written<String> = Written {
    what: "the name of a cookie",
    expected: "1 to 64 letters, digits, - and _",
    parse: |name| is_name(name).then(|| name.to_owned()).ok_or(Unfit::Range),
    text: String::clone,
};

named! {
    /// What identifies requests that belong together.
    pub enum StickyBy {
        /// Nothing: the policy chooses for each request.
        None = "none",
        /// A cookie of ours, which identifies a replica without revealing its address.
        Cookie = "cookie",
        /// The value of a request's header.
        Header = "header",
        /// The client's address, as reported by trusted proxies before us.
        Address = "address",
    }
}

/// The attribute `SameSite` of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// `SameSite=Strict`.
    Strict,
    /// `SameSite=Lax`.
    Lax,
    /// `SameSite=None`, which needs `secure`.
    None,
}

impl SameSite {
    const NAMES: [(&'static str, Self); 3] = [
        ("strict", Self::Strict),
        ("lax", Self::Lax),
        ("none", Self::None),
    ];

    /// The attribute's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Lax => "Lax",
            Self::None => "None",
        }
    }
}

impl StickySettings {
    /// Reads the section, with remarks.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> (Self, Vec<Remark>) {
        let settings: Self = table::read(reader, prefix);
        let header = field::<Self>(prefix, "header");
        if settings.by == StickyBy::Header
            && settings.header.is_none()
            && reader.definition(&header).is_none()
        {
            reader.add_missing_key(&header, "the name of a field such as \"x-user\"");
        }
        let is_refused_by_browsers = settings.cookie_same_site == SameSite::None
            && !settings.cookie_secure
            && settings.by == StickyBy::Cookie;
        let definition = reader.definition(&field::<Self>(prefix, "cookie_same_site"));
        let remark = definition.filter(|_| is_refused_by_browsers).map(|definition| Remark {
            severity: Severity::Warning,
            about: definition.mistake("browsers refuse a cookie for all sites that is not for TLS only; set cookie_secure = true"),
        });
        let remarks = remark.into_iter().chain(settings.unused(reader, prefix));
        let remarks = remarks.collect();
        (settings, remarks)
    }

    /// Warns about settings that do nothing with this `by`.
    fn unused(&self, reader: &Reader<'_>, prefix: &str) -> Vec<Remark> {
        if self.by == StickyBy::None {
            return Self::idle(reader, prefix).into_iter().collect();
        }
        let of_other = [(StickyBy::Cookie, "cookie"), (StickyBy::Header, "header")];
        let of_other = of_other.into_iter().filter(|(by, _)| *by != self.by);
        let remarks = of_other.flat_map(|(by, begins)| {
            let told = format!("only with sticky.by = {}", quote(by.as_str()));
            let is_idle = |key: &str| key.starts_with(begins) && is_other(self, key);
            idle_keys::<Self>(reader, prefix, is_idle, &told)
        });
        remarks.collect()
    }

    /// Warns about settings of stickiness where stickiness is off.
    fn idle(reader: &Reader<'_>, prefix: &str) -> Option<Remark> {
        let definition = |key| reader.definition(&field::<Self>(prefix, key));
        if definition("by").is_some() {
            return None;
        }
        let about = reader.section_definition(&format!("{prefix}sticky"))?;
        let by_cookie = ["cookie", "cookie_age", "cookie_secure", "cookie_same_site"];
        let by = match definition("header") {
            Some(_) => "\"header\"",
            None if by_cookie.into_iter().any(|key| definition(key).is_some()) => "\"cookie\"",
            None => "\"cookie\", \"header\" or \"address\"",
        };
        Some(Remark {
            severity: Severity::Warning,
            about: about.mistake(format!(
                "makes nothing sticky: without the key by each request goes where the policy says; add by = {by}"
            )),
        })
    }

    /// Returns whether both services would set the same cookie, and overwrite each other's.
    pub(super) fn shares_cookie(&self, other: &Self) -> bool {
        let by_cookie = |it: &Self| it.by == StickyBy::Cookie;
        by_cookie(self) && by_cookie(other) && self.cookie == other.cookie
    }
}
