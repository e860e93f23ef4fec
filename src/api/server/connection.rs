//! One connection, served until its client closes it or misses a deadline, or the server stops.

use super::activity::{Activity, InFlight, Overdue, Phase, Protocol};
use crate::api::concurrency_limit::Peer;
use crate::api::{Api, middleware};
use axum::body::{Body, Bytes, HttpBody};
use futures_util::FutureExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// The time to which the timer is set while there is no deadline. It is moved forward as soon as there is one.
const NO_DEADLINE: Duration = Duration::from_secs(3600);

/// The number of bytes of a response that the connection gets at once.
const MOST_CHUNK_BYTES: usize = 64 * 1024;

/// The deadlines of a client that does not use its connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From the start of a connection, or the first byte of a later request, to the end of the request's head.
    pub header: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// Between two chunks of a response that the client receives.
    pub send: Duration,
}

/// Serves a connection. Returns the deadline that the client missed, if that ended it.
pub(super) async fn serve(
    http: auto::Builder<TokioExecutor>,
    (stream, peer): (TcpStream, Peer),
    api: Api,
    mut timeouts: Timeouts,
    stop: CancellationToken,
) -> Option<Overdue> {
    let activity = Activity::new(Instant::now());
    let socket = TokioIo::new(Socket { stream, activity: activity.clone() });
    let new_request = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let in_flight = new_request.begin(protocol(request.version()));
        middleware::handle(api.clone(), request.map(Body::new), peer)
            .map(|response| Ok::<_, Infallible>(response.map(|body| WatchedBody::new(body, in_flight))))
    });
    let mut connection = pin!(http.serve_connection(socket, service));
    let mut timer = pin!(sleep(timeouts.header));
    let mut stopping = pin!(stop.cancelled());
    let mut is_closing = false;
    loop {
        let end = poll_fn(|context| {
            if !is_closing && stopping.as_mut().poll(context).is_ready() {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            match connection.as_mut().poll(context) {
                Poll::Ready(result) => Poll::Ready(Err(result)),
                Poll::Pending => poll_deadline(timer.as_mut(), &activity, &timeouts, context).map(Ok),
            }
        });
        match end.await {
            Err(Ok(())) => return None,
            Err(Err(error)) => {
                tracing::debug!(error, "a connection failed");
                return None;
            }
            // An HTTP/2 client gets a GOAWAY, with the last request that is handled, and time to react.
            Ok(Overdue::Idle) if !is_closing && activity.is_http2() => {
                is_closing = true;
                timeouts.idle = timeouts.header;
                activity.restart(Instant::now());
                connection.as_mut().graceful_shutdown();
            }
            Ok(overdue) => return Some(overdue),
        }
    }
}

fn protocol(version: Version) -> Protocol {
    match version {
        Version::HTTP_2 => Protocol::Http2,
        _ => Protocol::Http1,
    }
}

/// Returns the deadline that has passed, if one has. The timer is moved only to an earlier time, or when it fires, so that
/// requests that arrive in time do not reset it.
fn poll_deadline(
    mut timer: Pin<&mut Sleep>,
    activity: &Activity,
    timeouts: &Timeouts,
    context: &mut Context<'_>,
) -> Poll<Overdue> {
    let mut next = activity.deadline(timeouts);
    if let Some((at, _)) = next.filter(|(at, _)| *at < timer.deadline()) {
        timer.as_mut().reset(at);
    }
    while timer.as_mut().poll(context).is_ready() {
        match next {
            Some((at, overdue)) if at <= timer.deadline() => return Poll::Ready(overdue),
            Some((at, _)) => timer.as_mut().reset(at),
            None => timer.as_mut().reset(Instant::now() + NO_DEADLINE),
        }
        next = activity.deadline(timeouts);
    }
    Poll::Pending
}

/// A socket that records when bytes arrive and leave.
struct Socket {
    stream: TcpStream,
    activity: Activity,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.received(Instant::now());
        }
        result
    }
}

impl Socket {
    fn record_sent(&self, result: &Poll<io::Result<usize>>) {
        if matches!(result, Poll::Ready(Ok(1..))) {
            self.activity.sent(Instant::now());
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.record_sent(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.record_sent(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The body of a response. The request ends when the body is dropped. The body is split into chunks, because otherwise the
/// server could not see how much of it the client has received.
struct WatchedBody {
    body: Body,
    /// The rest of a chunk that was too large.
    rest: Bytes,
    in_flight: InFlight,
}

impl WatchedBody {
    fn new(body: Body, in_flight: InFlight) -> Self {
        WatchedBody { body, rest: Bytes::new(), in_flight }
    }

    /// Returns the first bytes of a frame and stores the rest of it.
    fn split(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.into_data() {
            Ok(mut data) if data.len() > MOST_CHUNK_BYTES => {
                self.rest = data.split_off(MOST_CHUNK_BYTES);
                Frame::data(data)
            }
            Ok(data) => Frame::data(data),
            Err(trailers) => trailers,
        }
    }
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = match std::mem::take(&mut self.rest) {
            rest if rest.is_empty() => Pin::new(&mut self.body).poll_frame(context),
            rest => Poll::Ready(Some(Ok(Frame::data(rest)))),
        };
        match polled {
            Poll::Ready(Some(frame)) => {
                self.in_flight.set_phase(Phase::Sending, Instant::now());
                Poll::Ready(Some(frame.map(|frame| self.split(frame))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                self.in_flight.set_phase(Phase::Working, Instant::now());
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if rest > 0 {
            // The upper bound is set first, because it may never be below the lower one.
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper + rest);
            }
            hint.set_lower(hint.lower() + rest);
        }
        hint
    }
}
