//! `[sticky]`: by what requests that belong together find the same replica.

use super::kinds::{FIELD, is_name};
use crate::table::{
    self, Boolean, Choice, Maybe, Or, Span, Within, Written, field, named, settings,
};
use crate::toml_reader::values::Unfit;
use crate::toml_reader::{Reader, Remark, Severity};
use core::time::Duration;
use http::HeaderName;

settings! {
    /// By what requests that belong together find the same replica.
    pub struct StickySettings in "sticky" {
        /// What tells that requests belong to the same replica: nothing, a cookie that this proxy
        /// sets, the value of a field, or the client's address.
        by: StickyBy = StickyBy::None, Choice(StickyBy::NAMES);
        /// The cookie's name.
        cookie: String = "slackwater".to_owned(), COOKIE;
        /// For which clients keep it (`Max-Age`). `"session"`: until they are closed.
        cookie_age: Option<Duration> = None,
            Or("session", Within(Span, Duration::from_secs(1)..=Duration::from_hours(10 * 366 * 24)));
        /// Whether clients send it over TLS only (`Secure`).
        cookie_secure: bool = false, Boolean;
        /// To which sites' requests clients add it (`SameSite`).
        cookie_same_site: SameSite = SameSite::Lax, Choice(&SameSite::NAMES);
        /// The field whose value decides.
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
    /// What tells that requests belong together.
    pub enum StickyBy {
        /// Nothing: each request goes where the policy says.
        None = "none",
        /// A cookie of ours, which names a replica without saying where it is.
        Cookie = "cookie",
        /// The value of a field of the request.
        Header = "header",
        /// The client's address, as far as proxies before us are trusted to say it.
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
    /// Reads the section, and what is probably not meant.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> (Self, Option<Remark>) {
        let settings: Self = table::read(reader, prefix);
        let header = field::<Self>(prefix, "header");
        if settings.by == StickyBy::Header
            && settings.header.is_none()
            && reader.said(&header).is_none()
        {
            reader.add_missing_key(&header, "the name of a field such as \"x-user\"");
        }
        let is_refused_by_browsers = settings.cookie_same_site == SameSite::None
            && !settings.cookie_secure
            && settings.by == StickyBy::Cookie;
        let said = reader.said(&field::<Self>(prefix, "cookie_same_site"));
        let remark = said.filter(|_| is_refused_by_browsers).map(|said| Remark {
            severity: Severity::Warning,
            about: said.mistake("browsers refuse a cookie for all sites that is not for TLS only; set cookie_secure = true"),
        });
        (settings, remark)
    }

    /// Whether its clients' cookie is that of `other`, too, so that each would overwrite the
    /// other's.
    pub(super) fn shares_cookie(&self, other: &Self) -> bool {
        let by_cookie = |it: &Self| it.by == StickyBy::Cookie;
        by_cookie(self) && by_cookie(other) && self.cookie == other.cookie
    }
}
