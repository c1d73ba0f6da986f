// Two threads: the server's reads requests and puts them in a queue, the one that calls run() has the model.
#include "serve/service.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/strings.h"
#include "generate/prompt_log_probs.h"
#include "serve/reply_json.h"
#include "serve/tokens.h"
#include "serve/waiting.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

std::size_t characters_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

// One answer of a request.
struct Service::Choice {
  Job* job = nullptr;
  std::size_t prompt = 0, number = 0;  // of the request's; the engine's
  ChoiceText said = {};                // what is to be told at the end; in a stream, with the next part
  bool begun = false, ended = false;   // a part of it was sent; all of it is there
  std::size_t characters = 0;          // of its text so far
};

struct Service::Job {
  Reply reply;
  Request request;
  ReplyHead head;
  Usage usage = {};
  std::vector<std::unique_ptr<Choice>> choices = {};
  std::size_t open = 0;  // choices that are not ended
  Stopwatch watch = {};
  bool in_parts() const { return request.stream; }
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (const auto& prompt : request.prompts) most = std::max(most, std::ssize(prompt));
    return most + request.config->max_new_tokens;
  }
};

Service::Service(Served served, ServiceOptions options)
    : served_(std::move(served)),
      options_(std::move(options)),
      front_({served_.name, served_.max_length, options_.api_key, options_.log_requests}, routes()),
      waiting_(std::make_unique<Waiting<Job>>(options_.queue)) {
  reset_engine();
  add_gauges();
}
Service::~Service() = default;

std::vector<Front::Route> Service::routes() {
  std::vector<Front::Route> routes{
      {"/v1/completions", [this](const auto& asked, const auto& reply) { accept(asked, reply, false); }},
      {"/v1/chat/completions", [this](const auto& asked, const auto& reply) { accept(asked, reply, true); }}};
  for (Front::Route& route : token_routes(served_)) routes.push_back(std::move(route));
  return routes;
}

void Service::reset_engine() {
  engine_ = std::make_unique<generate::Engine>(*served_.model->causal_lm(), *served_.tokenizer, options_.adapter,
                                               options_.rows);
  if (options_.kept_bytes <= 0) return;
  kept_ = std::make_shared<generate::KeptTexts>(options_.kept_bytes);
  engine_->keep_texts_in(kept_);
}

void Service::add_gauges() {
  Metrics& metrics = front_.metrics();
  const auto add = [&](const char* name, const char* help, const std::atomic<std::int64_t>& number) {
    metrics.gauge(name, help, [&number] { return static_cast<double>(number.load()); });
  };
  const auto limit = [&](const char* name, const char* help, std::int64_t number) {
    metrics.gauge(name, help, [number] { return static_cast<double>(number); });
  };
  add("hone_requests_running", "Requests whose answers are being made.", gauges_.requests);
  metrics.gauge("hone_requests_waiting", "Requests that wait for room.",
                [this] { return static_cast<double>(waiting_->size()); });
  add("hone_answers_running", "Answers that are being made.", gauges_.answers);
  limit("hone_answers_limit", "Answers that are made at the same time at most.", options_.rows);
  add("hone_cache_bytes", "Memory that is set aside for keys and values of running answers at their longest.",
      gauges_.cache_bytes);
  if (options_.most_cache_bytes > 0)
    limit("hone_cache_limit_bytes", "The most that may be set aside so.", options_.most_cache_bytes);
  add("hone_kept_text_bytes", "Memory of what texts that were answered have left.", gauges_.kept_bytes);
  limit("hone_kept_text_limit_bytes", "The most that these may have.", std::max<std::int64_t>(options_.kept_bytes, 0));
}

void Service::tell_gauges() {
  gauges_.requests = std::ssize(begun_), gauges_.answers = engine_->rows();
  const bool counts = options_.cache_bytes && engine_->rows() > 0;
  gauges_.cache_bytes = counts ? options_.cache_bytes(engine_->rows(), longest_running()) : 0;
  gauges_.kept_bytes = kept_ ? kept_->bytes() : 0;
}

// The answers of a request are made side by side: those that could never have room are refused at once.
void Service::accept(const HttpRequest& request, const Reply& reply, bool is_chat) {
  const ordered_json body = body_of(request);
  auto job = std::make_shared<Job>(Job{reply, is_chat ? read_chat(body, served_) : read_completion(body, served_), {}});
  if (!fits(*job, {}))
    throw Refused(400,
                  fmt::format("{} answers of up to {} tokens need more memory than the server may take for keys "
                              "and values",
                              job->request.answers(), job->longest()),
                  is_chat ? "messages" : "prompt");
  job->head = {fmt::format("{:x}-{}", front_.started(), ++jobs_), served_.name,
               static_cast<std::int64_t>(wall_seconds()), is_chat};
  if (!job->request.make_form) return admit(std::move(job));
  if (forms_.size() >= options_.rows + options_.queue)
    throw Refused(503, fmt::format("the forms of {} are being made; try again later",
                                   counted(forms_.size(), "request")),
                  "", "overloaded");
  forms_.add([this, job = std::move(job)] { make_form(job); });
}

// Not in the server's thread, which answers others meanwhile.
void Service::make_form(const std::shared_ptr<Job>& job) try {
  if (job->reply.is_gone()) return;
  job->request.form = job->request.make_form({*job->request.config, job->request.prompts});
  admit(job);
} catch (const Refused& why) {
  refuse(job->reply, why);
} catch (const std::exception& why) {
  refuse(job->reply, Refused(500, fmt::format("unexpected: {}", why.what())));
}

void Service::admit(std::shared_ptr<Job> job) {
  waiting_->add(std::move(job), [this] {
    return [this, running = running_now_](const Job& next) mutable { return takes(running, next); };
  });
}

bool Service::fits(const Job& job, const Running& running) const {
  const std::int64_t all = running.rows + job.request.answers();
  if (all > options_.rows) return false;
  return options_.most_cache_bytes == 0 ||
         options_.cache_bytes(all, std::max(running.longest, job.longest())) <= options_.most_cache_bytes;
}

bool Service::takes(Running& running, const Job& job) const {
  if (!fits(job, running)) return false;
  running.rows += job.request.answers(), running.longest = std::max(running.longest, job.longest());
  return true;
}

std::int64_t Service::longest_running() const {
  std::int64_t longest = 0;
  for (const auto& [number, choice] : running_) longest = std::max(longest, choice->job->longest());
  return longest;
}

std::vector<std::shared_ptr<Service::Job>> Service::jobs_that_fit() {
  return waiting_->take([this](const Job& job) { return takes(running_now_, job); });
}

// Their prompts are read in one pass; what is asked of the prompts themselves takes another.
void Service::begin(const std::vector<std::shared_ptr<Job>>& jobs) {
  for (const std::shared_ptr<Job>& job : jobs) {
    begun_[job.get()] = job;
    if (job->in_parts()) job->reply.begin_events();
  }
  std::vector<generate::Asked> asked;
  for (const std::shared_ptr<Job>& job : jobs) {
    const Request& request = job->request;
    std::vector<std::vector<generate::TokenLogProbs>> of_prompts;
    if (request.echo && request.log_probs >= 0)
      of_prompts = generate::prompt_log_probs(*served_.model->causal_lm(), options_.adapter,
                                              {request.prompts.begin(), request.prompts.end()}, request.log_probs);
    for (std::int64_t i = 0; i < request.answers(); ++i) {
      auto choice = std::make_unique<Choice>();
      choice->job = job.get(), choice->said.index = i;
      choice->prompt = static_cast<std::size_t>(i / request.n);
      choice->said.has_tool_calls = request.has_tools && served_.finds_tool_calls;
      choice->said.is_named_call = request.is_named_call, choice->said.begins_thinking = request.begins_thinking;
      choice->said.is_held = request.holds_calls;
      const std::vector<std::int32_t>& prompt = request.prompts[choice->prompt];
      if (request.echo) choice->said.text = request.texts[choice->prompt];
      StreamDecoder decoder(*served_.tokenizer);
      for (std::size_t t = 0; !of_prompts.empty() && t < prompt.size(); ++t) {
        choice->said.tokens.push_back({.id = prompt[t], .has_log_probs = t > 0, .offset = choice->characters});
        if (t > 0) choice->said.tokens.back().log_probs = of_prompts[choice->prompt][t - 1];
        choice->characters += characters_of(decoder.push(prompt[t]));
      }
      choice->characters = characters_of(choice->said.text);
      choice->number = next_++;
      if (request.config->max_new_tokens > 0) {
        asked.push_back(
            {choice->number, prompt, request.config, Random(request.config->seed, fmt::format("generate/{}", i)),
             generate::answer_limit(*served_.model, *request.config, std::ssize(prompt)), request.log_probs,
             request.pictures, request.form});
        running_[choice->number] = choice.get();
      }
      job->choices.push_back(std::move(choice));
    }
    for (const auto& prompt : request.prompts) job->usage.prompt_tokens += std::ssize(prompt);
    job->open = job->choices.size();
    if (request.config->max_new_tokens == 0)
      for (const auto& choice : job->choices) end(*choice, "length");
  }
  count_kept(asked, engine_->add(asked));
  for (const std::shared_ptr<Job>& job : jobs) {
    front_.metrics().count_prompt(job->usage.prompt_tokens, job->usage.cached_tokens);
    job->reply.count_tokens(job->usage.prompt_tokens, 0);
  }
}

// Of each prompt once, however many answers it has.
void Service::count_kept(const std::vector<generate::Asked>& asked, const std::vector<std::int64_t>& kept) {
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Choice& choice = *running_.at(asked[i].number);
    if (choice.said.index % choice.job->request.n == 0) choice.job->usage.cached_tokens += kept[i];
  }
}

void Service::told(std::size_t number, std::int32_t id, const std::string& text,
                   const generate::TokenLogProbs* log_probs) {
  Choice& choice = *running_.at(number);
  Job& job = *choice.job;
  if (++job.usage.completion_tokens == 1) front_.metrics().first_token_after(job.watch.seconds());
  front_.metrics().count_generated();
  job.reply.count_tokens(job.usage.prompt_tokens, job.usage.completion_tokens);
  choice.said.text += text;
  if (log_probs)
    choice.said.tokens.push_back(
        {.id = id, .has_log_probs = true, .log_probs = *log_probs, .offset = choice.characters});
  choice.characters += characters_of(text);
  // Whether a text is a call of a tool is known at its end.
  const bool waits = choice.said.has_tool_calls || (choice.said.text.empty() && choice.said.tokens.empty());
  if (job.in_parts() && !waits) send_part(choice);
}

// Where the number of tokens was asked for, the parts before it say that it is yet to come.
std::string Service::part_text(const Job& job, ordered_json choice) {
  ordered_json part = reply_of(job.head, ordered_json::array({std::move(choice)}), nullptr, /*is_part=*/true);
  if (job.request.include_usage) part["usage"] = nullptr;
  return dumped(part);
}

// What is to be told of it since the last part.
void Service::send_part(Choice& choice) {
  Job& job = *choice.job;
  if (job.head.is_chat && !choice.begun) {
    ChoiceText opening;
    opening.index = choice.said.index;
    job.reply.event(part_text(job, part_of(opening, *served_.tokenizer, job.head, true)));
  }
  choice.begun = true;
  job.reply.event(part_text(job, part_of(choice.said, *served_.tokenizer, job.head, false)));
  choice.said.text.clear(), choice.said.tokens.clear();
}

void Service::finished(std::size_t number, const Generated& answer) {
  Choice& choice = *running_.at(number);
  running_.erase(number);
  end(choice, answer.reason == FinishReason::length ? "length" : "stop");
}

void Service::end(Choice& choice, const std::string& reason) {
  Job& job = *choice.job;
  choice.said.finish_reason = reason;
  if (job.in_parts()) send_part(choice);
  choice.ended = true;
  if (--job.open == 0) end(job);
}

void Service::end(Job& job) {
  // Whoever reads the answer may ask again at once, and finds the room.
  waiting_->locked([&] { running_now_.rows -= job.request.answers(); });
  if (!job.in_parts()) {
    ordered_json choices = ordered_json::array();
    for (const auto& choice : job.choices) choices.push_back(json_of(choice->said, *served_.tokenizer, job.head));
    job.reply.send(200, dumped(reply_of(job.head, std::move(choices), &job.usage, false)));
  } else {
    if (job.request.include_usage) job.reply.event(dumped(reply_of(job.head, ordered_json::array(), &job.usage, true)));
    job.reply.event("[DONE]");
    job.reply.end();
  }
  ended_.push_back(&job);
}

// One answer that cannot go on is its request's end: the others of the request leave with it.
void Service::leave_those_that_failed() {
  for (const auto& [job, why] : std::exchange(failed_, {})) {
    for (const auto& choice : job->choices)
      if (!choice->ended && running_.erase(choice->number) > 0) engine_->leave(choice->number);
    refuse_begun(*job, Refused(400, why, job->request.form_by, "unsupported_value"));
    ended_.push_back(job);
  }
}

void Service::leave_those_that_are_gone() {
  for (auto it = running_.begin(); it != running_.end();) {
    Choice& choice = *it->second;
    if (!choice.job->reply.is_gone()) {
      ++it;
      continue;
    }
    engine_->leave(it->first);
    it = running_.erase(it);
    if (--choice.job->open == 0) ended_.push_back(choice.job);
  }
}

void Service::refuse_begun(Job& job, const Refused& why) {
  if (!job.in_parts()) return refuse(job.reply, why);
  job.reply.event(dumped(error_of(why)));
  job.reply.end();
}

// The model's state after an error is nobody's.
void Service::fail_running(const std::string& why) {
  log::warning("{} running requests ended by an error: {}", begun_.size(), why);
  for (const auto& [job, owned] : begun_) refuse_begun(*job, Refused(500, why));
  begun_.clear(), running_.clear(), ended_.clear(), failed_.clear();
  reset_engine();
}

void Service::take_new() {
  const std::vector<std::shared_ptr<Job>> jobs = jobs_that_fit();
  if (!jobs.empty()) begin(jobs);
}

void Service::step() {
  leave_those_that_are_gone();
  if (engine_->rows() > 0)
    engine_->step([this](std::size_t number, std::int32_t id, const std::string& text,
                         const generate::TokenLogProbs* log_probs) { told(number, id, text, log_probs); },
                  [this](std::size_t number, const Generated& answer) { finished(number, answer); },
                  [this](std::size_t number, const Error& why) {
                    failed_.emplace(running_.at(number)->job, why.what());
                  });
  leave_those_that_failed();
  for (Job* job : std::exchange(ended_, {})) begun_.erase(job);
}

void Service::run(const std::function<bool()>& stop) {
  const at::NoGradGuard no_grad;
  for (;;) {
    const bool is_stopping = stop();
    if (is_stopping) front_.end(), waiting_->refuse_all();
    if (is_stopping && begun_.empty()) return;
    try {
      take_new();
      step();
    } catch (const std::exception& error) {
      fail_running(error.what());
    }
    tell_gauges();
    waiting_->locked([this] { running_now_ = {engine_->rows(), longest_running()}; });
    if (begun_.empty()) waiting_->wait();
  }
}

}  // namespace hone::serve
