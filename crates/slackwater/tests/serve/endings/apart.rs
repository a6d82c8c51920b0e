//! Cases that do not fit into the table: a test for each, and its text on the page.

mod copies;
mod rest;
mod times;
mod tunnels;

use super::node;

/// What ends, and what the other side sees.
pub(super) type Rows = &'static [(&'static str, &'static str)];

/// Makes a test of each row, and a list of all for the page.
macro_rules! apart {
    ($($title:literal { $($from:ident::$test:ident: $ends:literal => $seen:literal,)* })*) => {
        /// The rows under their titles.
        pub(super) const APART: &[(&str, Rows)] = &[$(($title, &[$(($ends, $seen)),*])),*];

        $($(
            #[tokio::test]
            async fn $test() {
                $from::$test().await;
            }
        )*)*
    };
}

apart! {
    "Tunnels (`Upgrade`, CONNECT)" {
        tunnels::a_client_ends_its_tunnel: "the client ends its connection (FIN)"
            => "the replica gets all that was sent, and an end (FIN)",
        tunnels::a_replica_ends_its_tunnel: "the replica ends its connection (FIN)"
            => "the client gets all that was sent, and an end (FIN)",
        tunnels::a_client_resets_its_tunnel: "the client's connection is reset (RST)"
            => "the replica's connection is reset, not ended",
        tunnels::a_replica_resets_its_tunnel: "the replica's connection is reset (RST)"
            => "the client's connection is reset, not ended",
        tunnels::a_tunnel_ends_before_a_tls_replica: "the client ends its connection, or it is reset; the replica speaks TLS"
            => "the replica gets close_notify for the end, and none for the reset",
        tunnels::a_tunnel_is_silent: "neither says anything for `timeouts.tunnel`"
            => "both connections are reset, not ended",
        tunnels::a_tunnel_at_the_end_of_the_drain: "the process stops, and `timeouts.drain` is over"
            => "both connections are reset, not ended",
    }
    "Times and limits" {
        times::a_replica_stalls: "the replica sends nothing for `timeouts.stall`"
            => "the client sees a response that is cut off, in each protocol",
        times::a_response_takes_too_long: "a response is not over within its route's `timeouts.total`"
            => "the client sees a response that is cut off, in each protocol",
        times::a_client_stalls: "an HTTP/1.0 client takes nothing for `timeouts.stall`"
            => "it sees a reset after what was on its way, not an end",
        times::the_drain_is_over: "the process stops, and `timeouts.drain` is over"
            => "the client sees a response that is cut off, in each protocol",
        times::the_process_is_killed: "the process is killed (SIGKILL)"
            => "an HTTP/1.0 client sees a reset, not an end",
        rest::an_upload_without_room_is_given_up: "a client over HTTP/2 gives up an upload that its replica has no room for"
            => "the replica's stream is reset with CANCEL",
        times::an_upload_is_too_large: "an upload without a length has more than `limits.body_bytes_max`"
            => "the replica sees a request that is cut off",
    }
    "Retries, second copies, mirrors" {
        copies::an_upload_breaks_off_during_a_retry: "an upload breaks off while it is tried again at a second replica"
            => "the second sees a request that is cut off",
        copies::an_upload_that_broke_off_is_not_retried: "an upload breaks off, then its replica closes the connection"
            => "no other replica sees the request",
        copies::half_an_upload_is_not_hedged: "an upload is late, and there is more to come of it"
            => "no second copy is sent: it would be of half a request",
        copies::the_loser_is_cut_off_and_the_winner_is_whole: "the slower of two copies is cut off in favour of the other"
            => "the client gets the other's response, whole",
        copies::the_winner_is_cut_off: "the faster of two copies breaks off within its response"
            => "the client sees a response that is cut off",
        copies::a_broken_upload_is_not_mirrored: "an upload to a service with a mirror breaks off"
            => "the mirror sees nothing of it, and it counts as `slackwater_mirror_skipped_total`",
    }
    "Answers before the end of a request" {
        rest::an_upload_is_stopped_after_a_whole_answer: "an HTTP/2 replica answers whole, then RST_STREAM(NO_ERROR)"
            => "the client gets the response whole; its upload is stopped with RST_STREAM(NO_ERROR) (HTTP/2) or not read on (HTTP/1.1)",
        rest::an_upload_after_an_early_answer_is_cut_off: "a replica answers whole before the upload is complete, then the upload breaks off"
            => "the client has its response; the replica sees a request that is cut off",
    }
    "gRPC" {
        rest::a_call_breaks_off_before_its_trailers: "a replica resets a call (any code) before the trailers"
            => "the client's stream is reset: no trailers, no `grpc-status`",
        rest::a_call_breaks_off_before_its_head: "a replica resets a call (any code) before its head"
            => "`grpc-status: 14` (UNAVAILABLE)",
    }
    "TLS" {
        rest::a_tls_replica_ends_without_close_notify: "a replica's connection ends (FIN) without close_notify, in a response that lasts until then"
            => "the client sees a response that is cut off",
        rest::a_tls_replica_ends_with_close_notify: "the same with close_notify"
            => "the response is whole",
    }
    "Node's own HTTP/2" {
        node::a_client_destroys_its_request: "a client calls `req.destroy()` in the middle of an upload (RST_STREAM(NO_ERROR))"
            => "replicas of both protocols see a request that is cut off",
        node::a_server_destroys_its_response: "a server calls `stream.destroy()` in the middle of a response (RST_STREAM(NO_ERROR))"
            => "clients of all protocols see a response that is cut off",
    }
}
