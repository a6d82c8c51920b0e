//! Sampling of requests, and the ids of their spans.
//!
//! If a request has a parent, the parent's sampled flag decides, unless the configuration ignores
//! parents. Any other request is decided by a random draw. A request that is not sampled is
//! forwarded unchanged.

use super::context::{Flags, SpanContext, TRACEPARENT};
use super::messages::{Kind, Span};
use super::queue::Queue;
use super::state::{TRACESTATE, combined};
use crate::sampling::Sampling;
use crate::seed::draw_seed;
use core::cell::{Cell, RefCell};
use core::num::{NonZeroU64, NonZeroU128};
use http::header::HeaderValue;
use slackwater_config::{ParentRule, TracingSettings};
use slackwater_core::{Draw, SplitMix64};
use slackwater_http::Fields;
use slackwater_telemetry::trace::{SpanId, TraceId};
use std::rc::Rc;
use std::sync::Arc;

/// One worker's sampling, and the queue of its spans.
#[derive(Debug)]
pub(crate) struct Tracer {
    parent: Cell<ParentRule>,
    sampling: RefCell<Sampling>,
    draws: RefCell<Draws>,
    queue: Arc<Queue>,
}

/// A sampled request, which becomes spans.
#[derive(Debug)]
pub(crate) struct Traced {
    tracer: Rc<Tracer>,
    sampled: Sampled,
    /// The scheme that the client used.
    scheme: &'static str,
}

/// Context of a sampled request in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sampled {
    /// Its own span.
    own: SpanContext,
    /// The span that sent it; `None` if the trace starts with it.
    parent: Option<SpanId>,
    state: Option<HeaderValue>,
}

/// Each generator has its own seed, so a trace id is one of 2^128.
#[derive(Debug)]
struct Draws {
    high: SplitMix64,
    low: SplitMix64,
}

impl Draws {
    const fn new(high: u64, low: u64) -> Self {
        Self {
            high: SplitMix64::new(high),
            low: SplitMix64::new(low),
        }
    }

    fn trace(&mut self) -> TraceId {
        let drawn = u128::from(self.high.draw()) << 64 | u128::from(self.low.draw());
        TraceId(NonZeroU128::new(drawn).unwrap_or(NonZeroU128::MIN))
    }

    fn span(&mut self) -> SpanId {
        SpanId(NonZeroU64::new(self.low.draw()).unwrap_or(NonZeroU64::MIN))
    }
}

impl Tracer {
    pub(super) fn new(settings: &TracingSettings, queue: Arc<Queue>) -> Self {
        Self {
            parent: Cell::new(settings.parent),
            sampling: RefCell::new(Sampling::new(settings.sample)),
            draws: RefCell::new(Draws::new(draw_seed(), draw_seed())),
            queue,
        }
    }

    /// Applies these settings from now on.
    pub(crate) fn set_rules(&self, settings: &TracingSettings) {
        self.parent.set(settings.parent);
        self.sampling.replace(Sampling::new(settings.sample));
    }

    /// Makes the sampling decision for a request with these fields; `scheme` derives its scheme
    /// from them. The fields of a sampled request then name its own span as the sender, for
    /// recipients that are not one of its attempts, such as a mirror.
    pub(crate) fn begin(
        self: &Rc<Self>,
        headers: &mut Fields,
        scheme: impl FnOnce(&Fields) -> &'static str,
    ) -> Option<Traced> {
        let parent = match self.parent.get() {
            ParentRule::Follow => SpanContext::of(headers),
            ParentRule::Ignore => {
                // Replicas must not follow a parent that is ignored here.
                headers.remove(TRACEPARENT);
                headers.remove(TRACESTATE);
                None
            }
        };
        let is_sampled = match parent {
            Some(parent) => parent.flags.is_sampled(),
            None => self.sampling.borrow_mut().takes(),
        };
        if !is_sampled {
            return None;
        }
        let mut draws = self.draws.borrow_mut();
        let own = match parent {
            Some(parent) => SpanContext {
                span: draws.span(),
                ..parent
            },
            None => SpanContext {
                trace: draws.trace(),
                span: draws.span(),
                flags: Flags::BEGUN,
            },
        };
        let scheme = scheme(headers);
        // Without a valid parent, the state is meaningless.
        let state = parent.and_then(|_| combined(headers));
        headers.remove(TRACESTATE);
        if let Some(state) = &state {
            headers.append(TRACESTATE, state);
        }
        own.mark(headers);
        Some(Traced {
            tracer: Rc::clone(self),
            sampled: Sampled {
                own,
                parent: parent.map(|parent| parent.span),
                state,
            },
            scheme,
        })
    }

    /// Passes on the spans of a request that has ended.
    pub(crate) fn finish(&self, spans: &[Span]) {
        self.queue.push(spans);
    }
}

impl Traced {
    /// The trace of the request.
    pub(crate) const fn trace(&self) -> TraceId {
        self.sampled.own.trace
    }

    /// Starts the span of another attempt, and sets it as the sender in these fields.
    pub(crate) fn begin_attempt(&self, headers: &mut Fields) -> SpanId {
        let span = self.tracer.draws.borrow_mut().span();
        self.context(span).mark(headers);
        span
    }

    pub(crate) const fn tracer(&self) -> &Rc<Tracer> {
        &self.tracer
    }

    pub(crate) const fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Makes the span of the request itself, without attributes.
    pub(crate) fn server_span(&self) -> Span {
        self.with_state(Span::new(
            self.sampled.own,
            self.sampled.parent,
            Kind::Server,
        ))
    }

    /// Makes the span of an attempt, without attributes.
    pub(crate) fn attempt_span(&self, span: SpanId) -> Span {
        let above = self.sampled.own.span;
        self.with_state(Span::new(self.context(span), Some(above), Kind::Client))
    }

    const fn context(&self, span: SpanId) -> SpanContext {
        SpanContext {
            span,
            ..self.sampled.own
        }
    }

    fn with_state(&self, span: Span) -> Span {
        let state = self.sampled.state.as_ref();
        let state = state.and_then(|state| state.to_str().ok());
        Span {
            trace_state: state.unwrap_or_default().to_owned(),
            ..span
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::Quantile;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn tracer(parent: ParentRule, millionths: u32) -> Rc<Tracer> {
        let share = Quantile::from_millionths(millionths).expect("a share");
        let queue = Arc::new(Queue::new(Arc::default()));
        Rc::new(Tracer {
            parent: Cell::new(parent),
            sampling: RefCell::new(Sampling::seeded(share, 3)),
            draws: RefCell::new(Draws::new(1, 2)),
            queue,
        })
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> Fields {
        let mut headers = Fields::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn sampled_parent_is_followed_with_any_share() {
        let tracer = tracer(ParentRule::Follow, 0);
        let mut fields = headers(&[
            ("traceparent", PARENT),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
        ]);
        let begun = tracer.begin(&mut fields, |_| "http").expect("sampled");
        assert_eq!(begun.trace().to_string(), &PARENT[3..35]);
        let server = begun.server_span();
        assert_eq!(
            server.parent_span_id,
            0xb7ad_6b71_6920_3331_u64.to_be_bytes()
        );
        assert_eq!(
            (server.trace_state.as_str(), server.flags),
            ("a=1,b=2", 0x301)
        );
        let state: Vec<_> = fields.get_all("tracestate").collect();
        assert_eq!(state, ["a=1,b=2"]);
        // A recipient that is not an attempt gets the request's own span.
        let sent_by = |span: SpanId| format!("{}{span}-01", &PARENT[..36]);
        let own = begun.sampled.own.span;
        assert_eq!(own.0.get().to_be_bytes(), *server.span_id);
        assert_eq!(fields.get("traceparent").expect("a parent"), sent_by(own));
        assert_ne!(fields.get("traceparent").expect("a parent"), PARENT);

        let mut before = own;
        for _ in 0..2 {
            let span = begun.begin_attempt(&mut fields);
            assert_ne!(span, before);
            before = span;
            let sent: Vec<_> = fields.get_all("traceparent").collect();
            assert_eq!(sent, [&*sent_by(span)]);
            let attempt = begun.attempt_span(span);
            assert_eq!(attempt.span_id, span.0.get().to_be_bytes());
            assert_eq!(attempt.parent_span_id, server.span_id);
            assert_eq!(attempt.trace_id, server.trace_id);
            assert_eq!(
                (attempt.trace_state.as_str(), attempt.flags),
                ("a=1,b=2", 0x101)
            );
        }
    }

    #[test]
    fn unsampled_requests_are_forwarded_unchanged() {
        for parent in [Some(UNSAMPLED), Some("00-bad"), None] {
            // A share of 1 does not override a parent that is not sampled.
            let share = if parent == Some(UNSAMPLED) {
                1_000_000
            } else {
                0
            };
            let tracer = tracer(ParentRule::Follow, share);
            let mut fields = headers(&[("tracestate", "not valid"), ("tracestate", "b=2")]);
            if let Some(parent) = parent {
                fields.insert("traceparent", HeaderValue::from_static(parent));
            }
            let before = fields.clone();
            assert!(tracer.begin(&mut fields, |_| "http").is_none());
            assert_eq!(fields, before);
        }
    }

    #[test]
    fn without_a_valid_parent_a_trace_starts_without_state() {
        let tracer = tracer(ParentRule::Follow, 1_000_000);
        for parent in ["00-bad", PARENT] {
            let mut fields = headers(&[("traceparent", parent), ("tracestate", "a=1")]);
            if parent == PARENT {
                fields.append("traceparent", HeaderValue::from_static(PARENT));
            }
            let begun = tracer.begin(&mut fields, |_| "http").expect("sampled");
            let server = begun.server_span();
            assert_eq!((server.flags, &*server.trace_state), (0x103, ""));
            assert!(server.parent_span_id.is_empty());
            assert!(!fields.contains_key("tracestate"));
            assert_eq!(fields.get_all("traceparent").count(), 1);
            let sent = fields
                .get("traceparent")
                .expect("a parent")
                .to_str()
                .expect("text");
            assert!(
                sent.ends_with("-03") && sent[3..35] != PARENT[3..35],
                "{sent}"
            );
        }
    }

    #[test]
    fn ignored_parents_have_no_effect_and_are_not_forwarded() {
        let none = tracer(ParentRule::Ignore, 0);
        let mut fields = headers(&[("traceparent", PARENT), ("tracestate", "a=1")]);
        assert!(none.begin(&mut fields, |_| "http").is_none());
        assert!(fields.is_empty());

        let all = tracer(ParentRule::Ignore, 1_000_000);
        for parent in [PARENT, UNSAMPLED] {
            let mut fields = headers(&[("traceparent", parent), ("tracestate", "a=1")]);
            let begun = all.begin(&mut fields, |_| "http").expect("sampled");
            assert!(!fields.contains_key("tracestate"));
            assert!(begun.server_span().parent_span_id.is_empty());
            assert_ne!(begun.trace().to_string(), &PARENT[3..35]);
        }
    }

    #[test]
    fn requests_without_a_parent_are_sampled_by_the_share() {
        let tracer = tracer(ParentRule::Follow, 10_000);
        let count = (0..100_000)
            .filter(|_| tracer.begin(&mut Fields::new(), |_| "http").is_some())
            .count();
        // The standard deviation of the count is 31.
        assert!((800..1_200).contains(&count), "{count}");
    }

    #[test]
    fn the_rules_may_change_between_requests() {
        let tracer = tracer(ParentRule::Follow, 0);
        let begin = || {
            let mut fields = headers(&[("traceparent", UNSAMPLED)]);
            tracer.begin(&mut fields, |_| "http").is_some()
        };
        assert!(!begin());
        tracer.set_rules(&TracingSettings {
            parent: ParentRule::Ignore,
            sample: Quantile::ONE,
            ..TracingSettings::default()
        });
        assert!(begin());
    }

    #[test]
    fn trace_and_span_ids_are_unique() {
        let tracer = tracer(ParentRule::Follow, 1_000_000);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..10_000 {
            let begun = tracer.begin(&mut Fields::new(), |_| "http");
            let begun = begun.expect("sampled");
            assert!(seen.insert(begun.trace().to_string()));
            assert!(seen.insert(begun.sampled.own.span.to_string()));
            let attempt = begun.begin_attempt(&mut Fields::new());
            assert!(seen.insert(attempt.to_string()));
        }
    }
}
