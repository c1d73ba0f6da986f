// Requests become answers: many at a time, each begun as soon as there is room beside the others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "generate/engine.h"
#include "serve/beside.h"
#include "serve/front.h"
#include "serve/request.h"

namespace hone::serve {

template <class Job>
class Waiting;

struct ServiceOptions {
  std::int64_t rows = 16;             // answers that are made at the same time
  std::int64_t queue = 256;           // requests that may wait
  std::int64_t most_cache_bytes = 0;  // of keys and values; 0: no limit
  std::function<std::int64_t(std::int64_t rows, std::int64_t tokens)> cache_bytes =
      {};                                 // of so many answers as long as this
  std::int64_t kept_bytes = 0;            // of what is kept of texts that were answered
  std::string api_key = {};               // "": none is asked for
  std::string adapter = kDefaultAdapter;  // of the model; "": none
  bool log_requests = false;              // a line for each
};

class Service {
 public:
  // REQUIRES: the model and all else that is served outlive it.
  Service(Served served, ServiceOptions options);
  ~Service();
  // For HttpServer, in its thread: answers at once what is no matter of the model; the rest waits.
  void handle(const HttpRequest& request, const Reply& reply) const { front_.handle(request, reply); }
  void done(const HttpDone& done) { front_.done(done); }
  // Makes answers until stop() says so and what was begun is answered. What waits then is refused.
  void run(const std::function<bool()>& stop);

 private:
  struct Job;
  struct Choice;
  std::vector<Front::Route> routes();
  void accept(const HttpRequest& request, const Reply& reply, bool is_chat);
  void make_form(const std::shared_ptr<Job>& job);
  void admit(std::shared_ptr<Job> job);
  void take_new();
  std::vector<std::shared_ptr<Job>> jobs_that_fit();
  std::int64_t longest_running() const;
  // What runs: answers, and the most tokens that one may have with its prompt.
  struct Running {
    std::int64_t rows = 0, longest = 0;
  };
  bool fits(const Job& job, const Running& running) const;
  bool takes(Running& running, const Job& job) const;
  void begin(const std::vector<std::shared_ptr<Job>>& jobs);
  void count_kept(const std::vector<generate::Asked>& asked, const std::vector<std::int64_t>& kept);
  void step();
  void leave_those_that_are_gone();
  void leave_those_that_failed();
  void fail_running(const std::string& why);
  void refuse_begun(Job& job, const Refused& why);
  void told(std::size_t number, std::int32_t id, const std::string& text, const generate::TokenLogProbs* log_probs);
  void finished(std::size_t number, const Generated& answer);
  static std::string part_text(const Job& job, nlohmann::ordered_json choice);
  void send_part(Choice& choice);
  void end(Choice& choice, const std::string& reason);
  void end(Job& job);
  void reset_engine();
  void add_gauges();
  void tell_gauges();

  Served served_;
  ServiceOptions options_;
  Front front_;
  std::unique_ptr<Waiting<Job>> waiting_;
  Running running_now_;  // under waiting_'s lock, so that what is taken is not counted twice or never
  std::atomic<std::uint64_t> jobs_ = 0;
  struct Gauges {
    std::atomic<std::int64_t> requests = 0, answers = 0, cache_bytes = 0, kept_bytes = 0;
  };
  Gauges gauges_;  // as they were after the last step
  // run()'s own.
  std::unique_ptr<generate::Engine> engine_;
  std::shared_ptr<generate::KeptTexts> kept_;  // null: nothing is kept
  std::map<Job*, std::shared_ptr<Job>> begun_;
  std::map<std::size_t, Choice*> running_;  // by the engine's number
  std::vector<Job*> ended_;                 // of begun_, in this step
  std::map<Job*, std::string> failed_;      // of begun_, in this step, and why
  std::size_t next_ = 0;
  Beside forms_;  // ends before all that it works with
};

}  // namespace hone::serve
