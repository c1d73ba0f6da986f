// Requests that wait together are computed together: their texts by length, so that little is padded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "serve/waiting.h"

namespace hone::serve {

// A text of a request.
template <class Job>
struct PlaceOfText {
  Job* job;
  std::size_t text;
};

// A Job has `texts`, length(text), `open` (how many texts are yet to be computed) and finish(), which answers it.
// compute: takes the places of one pass, and puts into each job what came of its text.
template <class Job>
void in_passes(const std::vector<std::shared_ptr<Job>>& jobs, std::int64_t texts_of_pass,
               const std::function<void(std::span<const PlaceOfText<Job>>)>& compute) {
  std::vector<PlaceOfText<Job>> places;
  for (const std::shared_ptr<Job>& job : jobs)
    for (std::size_t text = 0; text < job->texts.size(); ++text) places.push_back({job.get(), text});
  std::ranges::stable_sort(places, std::greater<>(),
                           [](const PlaceOfText<Job>& place) { return place.job->length(place.text); });
  const auto most = static_cast<std::size_t>(texts_of_pass);
  for (std::size_t begin = 0; begin < places.size(); begin += most) {
    const auto now = std::span(std::as_const(places)).subspan(begin, std::min(most, places.size() - begin));
    compute(now);
    for (const PlaceOfText<Job>& place : now)
      if (--place.job->open == 0) place.job->finish();
  }
}

// Until stop() says so; what waits then is refused. next: takes those that are computed together; compute: likewise.
// What goes wrong is an error of these requests alone.
template <class Job>
void run_passes(Waiting<Job>& waiting, const std::function<bool()>& stop,
                const std::function<std::vector<std::shared_ptr<Job>>()>& next,
                const std::function<void(const std::vector<std::shared_ptr<Job>>&)>& compute) {
  while (!stop()) {
    const std::vector<std::shared_ptr<Job>> jobs = next();
    try {
      if (!jobs.empty()) compute(jobs);
    } catch (const std::exception& error) {
      log::warning("{} requests ended by an error: {}", jobs.size(), error.what());
      for (const std::shared_ptr<Job>& job : jobs)
        if (job->open > 0) refuse(job->reply, Refused(500, error.what()));
    }
    if (jobs.empty()) waiting.wait();
  }
  waiting.refuse_all();
}

}  // namespace hone::serve
