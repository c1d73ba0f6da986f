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
};

class Service {
 public:
  // REQUIRES: the model and all else that is served outlive it.
  Service(Served served, ServiceOptions options);
  ~Service();
  // For HttpServer, in its thread: answers at once what is no matter of the model; the rest waits.
  void handle(const HttpRequest& request, const Reply& reply) const { front_.handle(request, reply); }
  // Makes answers until stop() says so and what was begun is answered. What waits then is refused.
  void run(const std::function<bool()>& stop);

 private:
  struct Job;
  struct Choice;
  void accept(const HttpRequest& request, const Reply& reply, bool is_chat);
  void take_new();
  std::vector<std::shared_ptr<Job>> jobs_that_fit();
  bool fits(const Job& job, std::int64_t rows, std::int64_t longest) const;
  void begin(const std::vector<std::shared_ptr<Job>>& jobs);
  void count_kept(const std::vector<generate::Asked>& asked, const std::vector<std::int64_t>& kept);
  void step();
  void leave_those_that_are_gone();
  void fail_running(const std::string& why);
  void told(std::size_t number, std::int32_t id, const std::string& text, const generate::TokenLogProbs* log_probs);
  void finished(std::size_t number, const Generated& answer);
  static std::string part_text(const Job& job, nlohmann::ordered_json choice);
  void send_part(Choice& choice);
  void end(Choice& choice, const std::string& reason);
  void end(Job& job);
  void reset_engine();

  Served served_;
  ServiceOptions options_;
  Front front_;
  std::unique_ptr<Waiting<Job>> waiting_;
  std::atomic<std::uint64_t> jobs_ = 0;
  // run()'s own.
  std::unique_ptr<generate::Engine> engine_;
  std::map<Job*, std::shared_ptr<Job>> begun_;
  std::map<std::size_t, Choice*> running_;  // by the engine's number
  std::vector<Job*> ended_;                 // of begun_, in this step
  std::size_t next_ = 0;
};

}  // namespace hone::serve
