// Speaking with the program.
#include "objectives/environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/ask_program.h"
#include "base/child.h"
#include "base/strings.h"
#include "objectives/reward_bounds.h"

namespace hone::objectives {
namespace {

using nlohmann::ordered_json;

constexpr const char* kExpected =
    R"(expected {"messages": [...]}, {"text": "..."} or {"done": true}, with a number or null as "reward" where it is done)";

constexpr std::array kKeys = {"messages", "text", "done", "reward", "failures", "id"};

bool has(const ordered_json& reply, const char* name) { return reply.contains(name) && !reply[name].is_null(); }

// Which of a reply's members is not what it should be; "": none.
std::string fault_of(const ordered_json& reply) {
  const auto has = [&](const char* name) { return objectives::has(reply, name); };
  if (!reply.is_object()) return "no object";
  for (const auto& [key, value] : reply.items())
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      return fmt::format("unknown key {}, known are {}", hone::quoted(key), fmt::join(kKeys, ", "));
  if (has("done") && !reply["done"].is_boolean()) return R"("done" is neither true nor false)";
  if (has("reward") && !reply["reward"].is_number()) return R"("reward" is no number)";
  if (has("reward") && !may_be_reward(reply["reward"].get<double>()))
    return R"("reward" is further from 0 than 1e9)";
  if (has("text") && (!reply["text"].is_string() || reply["text"] == "")) return R"("text" is not some text)";
  if (has("failures") && !reply["failures"].is_number_unsigned()) return R"("failures" is no whole number from 0)";
  const bool done = has("done") && reply["done"] == true;
  if (done && (has("messages") || has("text"))) return "it is done and says more";
  if (!done && has("reward")) return R"(a "reward" before it is done)";
  if (!done && has("messages") == has("text")) return has("text") ? "messages and a text" : "nothing of these";
  if (!has("messages")) return "";
  if (!reply["messages"].is_array() || reply["messages"].empty()) return R"("messages" is no list of messages)";
  for (const ordered_json& one : reply["messages"]) {
    if (!one.is_object() || !one.contains("role") || !one["role"].is_string()) return "a message without a role";
    if (one["role"] == "assistant") return "a message of the assistant's, which is the model";
  }
  return "";
}

// The same as an answer to this line.
std::string fault_of_answer(const ordered_json& reply, const ordered_json& told) {
  if (has(reply, "id") && reply["id"] != told["id"])
    return fmt::format(R"(it is out of order: "id" {}, expected {})", escape_for_terminal(reply["id"].dump()),
                       told["id"].dump());
  const std::size_t calls = told["tool_calls"].is_array() ? told["tool_calls"].size() : 0;
  if (has(reply, "failures") && reply["failures"].get<std::uint64_t>() > calls)
    return fmt::format(R"("failures" {}, of {} in "tool_calls" (unreadable ones are counted without it))",
                       reply["failures"].get<std::uint64_t>(), counted(static_cast<std::int64_t>(calls), "call"));
  return "";
}

// The shell says so itself where there is no such program, and many an interpreter where it has no such file.
bool may_not_have_started(const std::string& failure) {
  return failure.starts_with("exit code 127 ") || failure.starts_with("exit code 126 ") ||
         failure.starts_with("exit code 2 ");
}

}  // namespace

void EnvironmentOptions::validate(Problems& problems) const {
  const EnvironmentOptions none;
  problems.require(command.empty() || command.find_first_not_of(" \t\n") != std::string::npos, "command", "is blank");
  problems.require(command.find('\0') == std::string::npos, "command", "holds a byte 0");
  problems.require(!command.empty() || max_turns == none.max_turns, "max_turns", "only with a command");
  problems.require(!command.empty() || timeout == none.timeout, "timeout", "only with a command");
  problems.require(!command.empty() || retries == none.retries, "retries", "only with a command");
  problems.require(!command.empty() || keep_turns, "keep_turns", "only with a command");
}

Error Environment::error(const std::string& fact) const {
  return Error(ErrorKind::data, fmt::format("environment: `{}`: {}", escape_for_terminal(options_.command), fact));
}

// One that takes another's place is told what that one was told.
void Environment::start() {
  dialogue_ = std::make_unique<Dialogue>(
      options_.command,
      ChildOptions{.without = rank_variables(), .seconds = options_.timeout, .stopped = is_told_to_stop});
  for (const Said& before : said_) {
    const Dialogue::Heard heard = dialogue_->say(before.told, before.heard.size());
    if (!heard.failure.empty()) return;  // and so it will say to what comes next
    const auto other = std::ranges::mismatch(heard.lines, before.heard);
    if (other.in1 == heard.lines.end()) continue;
    throw error(fmt::format("asked anew, it answers otherwise than before; got {}, expected {}",
                            hone::quoted(*other.in1), hone::quoted(*other.in2)))
        .hint("objective.environment.retries is for a program that answers the same lines in the same way");
  }
}

Dialogue::Heard Environment::hear(const std::string& told, std::size_t expected) {
  const std::string doing = "waiting for the environment";
  for (std::int64_t times = 1;; ++times) {
    check_wait(doing);
    if (!dialogue_) start();
    Dialogue::Heard heard = dialogue_->say(told, expected);
    if (heard.failure.empty()) {
      if (options_.retries > 0) said_.push_back({told, heard.lines});
      return heard;
    }
    check_wait(doing);
    if (times > options_.retries) return heard;
    dialogue_.reset();
    wait_to_ask_anew(error(heard.failure).what(), times, options_.retries);
  }
}

std::vector<Reply> Environment::say(const std::vector<ordered_json>& lines) {
  if (lines.empty()) return {};
  std::string told;
  for (const ordered_json& line : lines)
    told += line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  const Dialogue::Heard heard = hear(told, lines.size());
  std::vector<Reply> replies;  // what is wrong with a line says more than that there were too few
  for (const std::string& line : heard.lines)
    replies.push_back(reply_in(line, replies.size() + 1, lines[replies.size()]));
  if (!heard.failure.empty())
    throw error(heard.failure)
        .hint(may_not_have_started(heard.failure)
                  ? "127, 126 and 2 may mean that it has not started: it is run in the folder that hone was started "
                    "in, and its standard error says why"
                  : "it reads lines until there are no more, and answers each before it reads the next");
  return replies;
}

Reply Environment::reply_in(const std::string& line, std::size_t number, const ordered_json& told) const {
  const auto json = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto fail = [&](const std::string& fault) {
    return error(fmt::format("line {} of what it wrote: {}; got {}, {}", number, fault, hone::quoted(line), kExpected));
  };
  if (json.is_discarded()) throw fail("no JSON").hint("what else it has to say belongs on its standard error");
  if (const std::string fault = fault_of(json); !fault.empty()) throw fail(fault);
  if (const std::string fault = fault_of_answer(json, told); !fault.empty()) throw fail(fault);
  if (objectives::has(json, "reward") && !counts_rewards_)
    throw error(fmt::format("line {} of what it wrote: a \"reward\" that no reward counts", number))
        .hint("add {type: environment} to objective.rewards, or leave \"reward\" out");
  Reply reply;
  const auto has = [&](const char* name) { return objectives::has(json, name); };
  if (has("messages")) reply.messages = json["messages"];
  if (has("text")) reply.text = json["text"].get<std::string>();
  reply.done = has("done") && json["done"].get<bool>();
  if (has("reward")) reply.reward = json["reward"].get<double>();
  if (has("failures")) reply.failures = json["failures"].get<std::int64_t>();
  return reply;
}

void Environment::finish() {
  if (!dialogue_) return;
  const std::string failure = dialogue_->finish();
  if (failure.empty()) return;
  check_wait("waiting for the environment's end");
  throw error(failure);
}

}  // namespace hone::objectives
