//! HTTP/1.1 requests that could not be read, counted by the status of the answer.

use super::Count;
use http::StatusCode;
use slackwater_telemetry::facts::StatusCount;

/// Statuses that answer unreadable requests.
const STATUSES: [StatusCode; 5] = [
    StatusCode::BAD_REQUEST,
    StatusCode::URI_TOO_LONG,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    StatusCode::NOT_IMPLEMENTED,
    StatusCode::HTTP_VERSION_NOT_SUPPORTED,
];

/// Unreadable requests, by the status that their clients received.
#[derive(Debug, Default)]
pub struct UnreadableCounts([Count; STATUSES.len()]);

impl UnreadableCounts {
    /// Counts a request; any other status counts as 400.
    pub fn add_one(&self, status: StatusCode) {
        let place = STATUSES.iter().position(|known| *known == status);
        self.0[place.unwrap_or(0)].add_one();
    }
}

/// Sums the counts of all workers. Every status is included, even with a count of 0.
pub fn unreadable_requests(workers: &[&UnreadableCounts]) -> Vec<StatusCount> {
    let sum = |place: usize| {
        let counts = workers.iter();
        counts.map(|worker| worker.0[place].read()).sum()
    };
    let statuses = STATUSES.iter().enumerate();
    let counted = statuses.map(|(place, status)| StatusCount {
        status: status.as_u16(),
        requests: sum(place),
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_a_count_and_others_count_as_400() {
        let workers = [UnreadableCounts::default(), UnreadableCounts::default()];
        for status in STATUSES {
            workers[0].add_one(status);
        }
        workers[1].add_one(StatusCode::URI_TOO_LONG);
        workers[1].add_one(StatusCode::IM_A_TEAPOT);
        let counts = unreadable_requests(&workers.each_ref());
        let counts: Vec<_> = counts.iter().map(|it| (it.status, it.requests)).collect();
        assert_eq!(counts, [(400, 2), (414, 2), (431, 1), (501, 1), (505, 1)]);
    }
}
