//! A recording as the console shows it.

use std::sync::Arc;

use coalmine_sessions::State;

use super::{Move, Place};
use crate::playback::{ReplayHandle, ReplayRequest, ReplayView};

/// A recording that is shown, read on a thread of its own.
pub(in crate::console) struct Replayed {
    handle: ReplayHandle,
    view: ReplayView,
    /// The speed once every request is carried out.
    asked_speed: f64,
    /// Whether it plays once every request is carried out.
    asked_playing: bool,
}

impl Replayed {
    pub(in crate::console) fn new(handle: ReplayHandle) -> Self {
        let view = handle.latest();
        let (asked_speed, asked_playing) = (view.speed, view.playing);
        Self { handle, view, asked_speed, asked_playing }
    }

    /// Takes over what the reading thread has reached. Says whether that is news, and what it had to say.
    pub(in crate::console) fn poll(&mut self) -> (bool, Option<String>) {
        let before = std::mem::replace(&mut self.view, self.handle.latest());
        if self.is_answered() {
            (self.asked_speed, self.asked_playing) = (self.view.speed, self.view.playing);
        }
        let now = &self.view;
        let answered = now.answered != before.answered;
        let moved = !Arc::ptr_eq(&now.state, &before.state) || now.playing != before.playing;
        // A message without a request says why playing has stopped.
        let said = answered || now.message != before.message;
        (said || moved, now.message.clone().filter(|_| said))
    }

    pub(in crate::console) fn state(&self) -> &State {
        &self.view.state
    }

    pub(in crate::console) fn view(&self) -> &ReplayView {
        &self.view
    }

    pub(in crate::console) fn handle(&self) -> &ReplayHandle {
        &self.handle
    }

    /// Whether every request is carried out and shown.
    pub(in crate::console) fn is_answered(&self) -> bool {
        self.handle.asked() == self.view.answered
    }

    /// The speed once every request is carried out.
    pub(in crate::console) fn asked_speed(&self) -> f64 {
        self.asked_speed
    }

    /// Plays it or pauses it, whichever it will not be doing.
    pub(in crate::console) fn switch(&mut self) {
        self.ask(if self.asked_playing { ReplayRequest::Pause } else { ReplayRequest::Play });
    }

    pub(in crate::console) fn ask(&mut self, request: ReplayRequest) {
        match request {
            ReplayRequest::Speed(speed) => self.asked_speed = speed,
            ReplayRequest::Play => self.asked_playing = true,
            ReplayRequest::Step(_) | ReplayRequest::Time(_) => {}
            _ => self.asked_playing = false,
        }
        self.handle.ask(request);
    }

    pub(in crate::console) fn go(&mut self, to: Move) -> Result<(), String> {
        self.ask(match to {
            Move::Back => ReplayRequest::Back,
            Move::Forward => ReplayRequest::Forward,
            Move::PreviousAnomaly => ReplayRequest::PreviousAnomaly,
            Move::NextAnomaly => ReplayRequest::NextAnomaly,
            Move::To(Place::Step(step)) => {
                let last = self.handle.last_step();
                if step > last {
                    return Err(format!("Step {step} is not in the recording; its last is {last}."));
                }
                ReplayRequest::Step(step)
            }
            Move::To(Place::First) => ReplayRequest::Step(self.handle.first_step()),
            Move::To(Place::Last | Place::Now) => ReplayRequest::Step(self.handle.last_step()),
            Move::To(Place::Corruption) => ReplayRequest::FirstCorruption,
            Move::Time(time_ns) => ReplayRequest::Time(time_ns),
            Move::LastWrite(page) => ReplayRequest::LastWriteOf(page),
        });
        Ok(())
    }
}
