// Speaking by turns.
#include "objectives/conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "hone/random.h"
#include "text/chat/chat_continuation.h"
#include "text/chat/tool_calls.h"
#include "text/tokenizer/prompted_decoder.h"

namespace hone::objectives {
namespace {

using nlohmann::ordered_json;

// One answer in the making.
struct Talked {
  const Asked& asked;
  std::string prompt;
  std::uint64_t seed;
  std::int64_t number;  // among those that the program hears of
  GivenAnswer answer = {};
  ordered_json messages = ordered_json::array(), calls = {};  // calls: of the last turn; null: not looked for
  std::int64_t unreadable = 0;                                // of them
  std::string said = {};                                      // the last turn
  bool has_no_room = false;                                   // what it was told last did not fit in, and was not said
  bool is_over = false;

  std::uint64_t seed_of_turn() const {
    return answer.turns == 0 ? seed : Random(seed, fmt::format("turn/{}", answer.turns)).bits(0);
  }
  std::vector<std::int32_t> read() const {
    std::vector<std::int32_t> all = asked.ids;
    all.insert(all.end(), answer.ids.begin(), answer.ids.end());
    return all;
  }
};

class Conversing {
 public:
  // Of so many answers; what the model keeps of them goes with this.
  Conversing(const SamplingOptions& options, std::int64_t answers, Environment& environment,
             const StepContext& context)
      : options_(options),
        environment_(environment),
        context_(context),
        generator_(generator_of({{context.model}}, context)) {
    if (environment.keeps_turns()) generator_->keep_texts(options.generation_batch_size.value_or(answers));
    if (auto found = text::ChatTemplate::of(*context.tokenizer)) {
      finds_calls_ = text::writes_tool_calls(*found);
      continuation_.emplace(std::move(found), context.tokenizer);
    }
  }
  void go_on(std::vector<Talked>& all);

 private:
  void draw_turns(const std::vector<Talked*>& lines);
  void take(Talked& one, Generated&& turn) const;
  std::string whole_text(const std::vector<std::int32_t>& before, const std::vector<std::int32_t>& ids) const;
  ordered_json line_of(const Talked& one) const;
  void hear(Talked& one, const Reply& reply) const;
  void append(Talked& one, const Reply& reply) const;
  bool is_last(const Talked& one) const {
    return one.has_no_room || one.answer.turns == environment_.max_turns() || !one.answer.is_complete();
  }

  const SamplingOptions& options_;
  Environment& environment_;
  const StepContext& context_;
  std::unique_ptr<Generator> generator_;
  std::optional<text::ChatContinuation> continuation_;  // nothing: there is no chat template
  bool finds_calls_ = false;
};

void Conversing::draw_turns(const std::vector<Talked*>& lines) {
  std::vector<Draw> draws;
  for (const Talked* one : lines)
    draws.push_back({one->read(), one->seed_of_turn(),
                     options_.max_completion_length - static_cast<std::int64_t>(one->answer.ids.size())});
  std::vector<Generated> turns = draw(*generator_, draws, options_, context_);
  for (std::size_t i = 0; i < lines.size(); ++i) take(*lines[i], std::move(turns[i]));
}

// With the stop text that has ended it, which the model reads, too.
std::string Conversing::whole_text(const std::vector<std::int32_t>& before,
                                   const std::vector<std::int32_t>& ids) const {
  text::PromptedDecoder decoder(*context_.tokenizer, before);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void Conversing::take(Talked& one, Generated&& turn) const {
  GivenAnswer& answer = one.answer;
  ++answer.turns;
  one.said = turn.reason == FinishReason::stop ? whole_text(one.read(), turn.ids) : turn.text;
  answer.ids.insert(answer.ids.end(), turn.ids.begin(), turn.ids.end());
  answer.heard.resize(answer.ids.size(), false);
  answer.text = std::move(turn.text), answer.reason = turn.reason;
  ordered_json message{{"role", "assistant"}, {"content", one.said}};
  if (finds_calls_) {
    text::ToolCalls found = text::find_tool_calls(one.said, trim(one.prompt).ends_with("<think>"));
    one.unreadable = found.unreadable;
    answer.calls += std::ssize(found.calls) + found.unreadable;
    answer.failures += found.unreadable;
    one.calls = ordered_json::array();
    for (const ordered_json& call : found.calls) one.calls.push_back(call["function"]);
    if (!found.calls.empty()) message["content"] = found.content, message["tool_calls"] = std::move(found.calls);
  }
  one.messages.push_back(std::move(message));
}

ordered_json Conversing::line_of(const Talked& one) const {
  const auto random = Random(one.seed, "environment").bits(0) >> 11;  // as any language's numbers hold it
  return {{"id", one.number},
          {"turn", one.answer.turns},
          {"prompt", one.prompt},
          {"reference", one.asked.reference},
          {"completion", one.has_no_room ? "" : one.said},
          {"tool_calls", one.has_no_room && finds_calls_ ? ordered_json::array() : one.calls},
          {"unreadable_tool_calls", one.has_no_room ? 0 : one.unreadable},
          {"messages", one.messages},
          {"complete", one.answer.is_complete() && !one.has_no_room},
          {"last", is_last(one)},
          {"record", context_.record_name(one.asked.record)},
          {"step", context_.step + 1},  // as it is counted everywhere else
          {"seed", random}};
}

void Conversing::append(Talked& one, const Reply& reply) const {
  const std::string where = "what the environment says to " + context_.record_name(one.asked.record);
  if (!reply.text && !continuation_)
    throw Error(ErrorKind::config, where + ": got messages, expected a text: the tokenizer has no chat template")
        .hint("data.chat_template gives it one; or answer with {\"text\": ...}");
  const std::string text =
      reply.text ? *reply.text : continuation_->text(reply.messages, one.answer.ids.back(), one.prompt, where);
  const std::vector<std::int32_t> ids = context_.tokenizer->encode(text, /*special=*/false).ids;
  GivenAnswer& answer = one.answer;
  const std::int64_t length = std::ssize(answer.ids) + std::ssize(ids);
  const Model& model = context_.model;
  one.has_no_room = length >= options_.max_completion_length ||
                    (model.positions_are_learned() && std::ssize(one.asked.ids) + length > model.max_positions());
  if (one.has_no_room) return;
  answer.ids.insert(answer.ids.end(), ids.begin(), ids.end());
  answer.heard.resize(answer.ids.size(), true);
  if (reply.text) one.messages.push_back({{"role", "user"}, {"content", *reply.text}});
  for (const ordered_json& message : reply.messages) one.messages.push_back(message);
}

void Conversing::hear(Talked& one, const Reply& reply) const {
  GivenAnswer& answer = one.answer;
  answer.failures += reply.failures;
  one.is_over = reply.done || is_last(one);
  if (!one.is_over) return append(one, reply);
  generator_->forget_text(one.read());
  answer.outcome = reply.reward;
  if (one.has_no_room) answer.reason = FinishReason::length;
  answer.messages = one.messages.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void Conversing::go_on(std::vector<Talked>& all) {
  for (;;) {
    std::vector<Talked*> there, speaking;
    for (Talked& one : all) {
      if (!one.is_over) there.push_back(&one);
      if (!one.is_over && !one.has_no_room) speaking.push_back(&one);
    }
    if (there.empty()) return;
    if (!speaking.empty()) draw_turns(speaking);
    std::vector<ordered_json> lines;
    for (const Talked* one : there) lines.push_back(line_of(*one));
    const std::vector<Reply> replies = environment_.say(lines);
    for (std::size_t i = 0; i < there.size(); ++i) hear(*there[i], replies[i]);
  }
}

}  // namespace

std::vector<GivenAnswer> converse(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                                  const SamplingOptions& options, Environment& environment,
                                  const StepContext& context) {
  std::vector<Talked> all;
  for (std::size_t p = 0; p < asked.size(); ++p) {
    const std::string prompt = context.tokenizer->decode(asked[p].ids, /*skip_special=*/false);
    for (std::int64_t which = 0; which < each; ++which)
      all.push_back({asked[p], prompt, seed(p, which), environment.next_number()});
  }
  for (Talked& one : all) one.answer.turns = 0;
  Conversing(options, std::ssize(all), environment, context).go_on(all);
  std::vector<GivenAnswer> answers;
  for (Talked& one : all) answers.push_back(std::move(one.answer));
  return answers;
}

}  // namespace hone::objectives
