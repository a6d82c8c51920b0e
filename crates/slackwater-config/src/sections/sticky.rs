//! `[sticky]`: by what requests that belong together find the same replica.

use super::model::ServiceConfig;
use super::retries::name_of;
use super::show::{quoted, write_section};
use crate::routes::{Action, Route};
use crate::toml_reader::values::{Unfit, boolean, duration, one_of, show_duration, text, within};
use crate::toml_reader::{Reader, Remark, Severity};
use core::fmt::{self, Display};
use core::time::Duration;
use http::HeaderName;

/// By what requests that belong together find the same replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickySettings {
    /// What tells that requests belong together; default nothing.
    pub by: StickyBy,
    /// The cookie's name; default `slackwater`.
    pub cookie: String,
    /// For which clients keep the cookie: 1 s to 10 years. Default none: until they are closed.
    pub cookie_age: Option<Duration>,
    /// Whether clients send it over TLS only; default no.
    pub cookie_secure: bool,
    /// To whose requests clients add it; default `Lax`.
    pub cookie_same_site: SameSite,
    /// The field whose value is hashed.
    pub header: Option<HeaderName>,
}

/// What tells that requests belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StickyBy {
    /// Nothing: each request goes where the policy says.
    None,
    /// A cookie of ours, which names a replica without saying where it is.
    Cookie,
    /// The value of a field of the request.
    Header,
    /// The client's address, as far as proxies before us are trusted to say it.
    Address,
}

impl StickyBy {
    const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("cookie", Self::Cookie),
        ("header", Self::Header),
        ("address", Self::Address),
    ];
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

impl Default for StickySettings {
    fn default() -> Self {
        Self {
            by: StickyBy::None,
            cookie: "slackwater".to_owned(),
            cookie_age: None,
            cookie_secure: false,
            cookie_same_site: SameSite::Lax,
            header: None,
        }
    }
}

impl StickySettings {
    /// Reads `[sticky]`, or `[services.NAME.sticky]` where `prefix` says so; and what is probably not meant.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> (Self, Option<Remark>) {
        const YEARS: Duration = Duration::from_hours(10 * 366 * 24);
        let default = Self::default();
        let key = |name: &str| format!("{prefix}sticky.{name}");
        let by = reader.setting(&key("by"), default.by, "", |value| {
            one_of(value, &StickyBy::NAMES)
        });
        let cookie = reader.setting(
            &key("cookie"),
            default.cookie,
            "1 to 64 letters, digits, - and _",
            |value| {
                let name = text(value, "the name of a cookie")?;
                if super::services::is_name(name) {
                    Ok(name.to_owned())
                } else {
                    Err(Unfit::Range)
                }
            },
        );
        let cookie_age = reader.setting(
            &key("cookie_age"),
            default.cookie_age,
            "from 1s to 87840h, or \"session\"",
            |value| match value.as_str() {
                Some("session") => Ok(None),
                _ => duration(value)
                    .and_then(|span| within(span, &(Duration::from_secs(1)..=YEARS)))
                    .map(Some),
            },
        );
        let cookie_secure = reader.setting(&key("cookie_secure"), false, "", boolean);
        let same_site = reader.setting(
            &key("cookie_same_site"),
            default.cookie_same_site,
            "",
            |value| one_of(value, &SameSite::NAMES),
        );
        let header = reader.setting(&key("header"), None, "the name of a field", |value| {
            let name = text(value, "the name of a field")?;
            HeaderName::try_from(name)
                .map(Some)
                .map_err(|_| Unfit::Range)
        });
        if by.value == StickyBy::Header && header.value.is_none() && header.said.is_none() {
            reader.add_missing_key(&key("header"), "the name of a field such as \"x-user\"");
        }
        let is_refused_by_browsers = same_site.value == SameSite::None
            && !cookie_secure.value
            && by.value == StickyBy::Cookie;
        let remark = same_site.said.filter(|_| is_refused_by_browsers).map(|said| Remark {
            severity: Severity::Warning,
            about: said.mistake("browsers refuse a cookie for all sites that is not for TLS only; set cookie_secure = true"),
        });
        let settings = Self {
            by: by.value,
            cookie: cookie.value,
            cookie_age: cookie_age.value,
            cookie_secure: cookie_secure.value,
            cookie_same_site: same_site.value,
            header: header.value,
        };
        (settings, remark)
    }

    /// Whether its clients' cookie is that of `other`, too, so that each would overwrite the other's.
    fn shares_cookie(&self, other: &Self) -> bool {
        let by_cookie = |it: &Self| it.by == StickyBy::Cookie;
        by_cookie(self) && by_cookie(other) && self.cookie == other.cookie
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let age = self
            .cookie_age
            .map_or_else(|| "session".to_owned(), show_duration);
        let header = self.header.as_ref().map(quoted);
        let by = quoted(name_of(&StickyBy::NAMES, |of| of == self.by));
        let cookie = quoted(&self.cookie);
        let age = quoted(age);
        let same_site = quoted(name_of(&SameSite::NAMES, |of| of == self.cookie_same_site));
        let mut fields: Vec<(&str, &dyn Display)> = vec![
            ("by", &by),
            ("cookie", &cookie),
            ("cookie_age", &age),
            ("cookie_secure", &self.cookie_secure),
            ("cookie_same_site", &same_site),
        ];
        if let Some(header) = &header {
            fields.push(("header", header));
        }
        write_section(to, &format!("{prefix}sticky"), &fields)
    }
}

/// Services whose cookies have one name, where one client may get to both: at a listener and a host that routes to both of
/// them have in common.
pub(super) fn shared_cookies(
    reader: &Reader<'_>,
    services: &[ServiceConfig],
    routes: &[Route],
) -> Vec<Remark> {
    let leads_to = |route: &Route, service: usize| match &route.then {
        Action::Forward(forward) => {
            let mut parts = forward.services.parts().iter();
            parts.any(|(place, weight)| *place == service && *weight > 0)
        }
        _ => false,
    };
    let meet = |one: usize, other: usize| {
        let ways = |service| routes.iter().filter(move |route| leads_to(route, service));
        ways(one).any(|route| ways(other).any(|way| route.when.shares_clients(&way.when)))
    };
    let mut remarks = Vec::new();
    for (place, service) in services.iter().enumerate() {
        let before = services.iter().enumerate().take(place);
        let mut sharing = before.filter(|(other, before)| {
            service.sticky.shares_cookie(&before.sticky) && meet(place, *other)
        });
        if let Some((_, other)) = sharing.next()
            && let Some(said) = reader.said_section(&format!("services.{}.sticky", service.name))
        {
            remarks.push(Remark {
                severity: Severity::Warning,
                about: said.mistake(format!(
                    "the cookie {:?} is that of service {:?}, too, and clients that reach both lose their replica with each \
                     change; give one of them another sticky.cookie",
                    service.sticky.cookie, other.name
                )),
            });
        }
    }
    remarks
}
