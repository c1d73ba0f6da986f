// A call is spelled as chat templates spell it; its arguments alone are the model's to write.
#include "text/form/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "text/chat/tool_calls.h"

namespace hone::text {
namespace {

// A word, and where a text goes on behind its first one; below 0: it may not come.
struct MarkedWord {
  std::string_view text;
  std::int32_t behind;
};

class CallReader {
 public:
  explicit CallReader(const CallForm& form) : form_(form), builder_("tools") {}

  Grammar read() {
    const auto [entry, exit] = builder_.at(builder_.rule());
    call_ = builder_.rule();
    for (const CallForm::Function& function : form_.functions) add(function);
    const std::int32_t answer = think(entry);
    form_.must_call ? calls_alone(answer, exit) : text_with_calls(answer, exit);
    return builder_.take();
  }

 private:
  // From the end of <tool_call> to the beginning of what follows its end.
  void add(const CallForm::Function& function) {
    const Grammar::Rule ends = builder_.at(call_);
    const std::int32_t begin = builder_.node(), end = builder_.node();
    const std::string name = nlohmann::json(function.name).dump();
    builder_.text(ends.entry, begin, fmt::format("\n{{\"name\": {}, \"arguments\":", name));
    const std::string any = R"({"type": "object"})";
    builder_.call(begin, end, builder_.add(grammar_of_json_schema(
                                  function.schema.empty() ? std::string_view(any) : function.schema, function.where)));
    builder_.text(end, ends.exit, fmt::format("}}\n{}", CallMarks::end));
  }

  // From `from` on any text until one of the words; `end`: where it may end before; below 0: it may not.
  void until(std::int32_t from, const std::vector<MarkedWord>& words, std::int32_t end) {
    // Texts that begin a word are states: each is the longest end of what was read that begins one.
    std::vector<std::pair<std::string, std::int32_t>> states{{"", from}};
    for (const MarkedWord& word : words)
      for (std::size_t n = 1; n < word.text.size(); ++n) {
        const std::string begun(word.text.substr(0, n));
        if (std::ranges::find(states, begun, &decltype(states)::value_type::first) == states.end())
          states.emplace_back(begun, builder_.node());
      }
    const auto next = [&](std::string read) {
      for (const MarkedWord& word : words)
        if (read.ends_with(word.text)) return word.behind;
      for (;; read.erase(0, 1))
        for (const auto& [begun, node] : states)
          if (begun == read) return node;
    };
    for (const auto& [begun, node] : states) {
      if (end >= 0) builder_.empty(node, end);
      for (int low = 0, high = 0; low < 256; low = high) {
        const std::int32_t to = next(begun + static_cast<char>(low));
        for (high = low + 1; high < 256 && next(begun + static_cast<char>(high)) == to;) ++high;
        if (to >= 0) builder_.bytes(node, to, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high - 1));
      }
    }
  }

  // Returns where the answer begins.
  std::int32_t think(std::int32_t entry) {
    if (form_.thinking == CallForm::Thinking::none) return entry;
    std::int32_t thinks = entry;
    const std::int32_t thought = builder_.node(), one = builder_.node(), answer = builder_.node();
    if (form_.thinking == CallForm::Thinking::may_come) {
      thinks = builder_.node();
      builder_.text(entry, thinks, CallMarks::think);
      builder_.empty(entry, answer);
    }
    until(thinks, {{CallMarks::thought, thought}}, -1);
    builder_.empty(thought, answer), builder_.text(thought, one, "\n");
    builder_.empty(one, answer), builder_.text(one, answer, "\n");
    return answer;
  }

  void calls_alone(std::int32_t from, std::int32_t exit) {
    const std::int32_t begun = builder_.node(), called = builder_.node();
    builder_.text(from, begun, CallMarks::begin);
    builder_.call(begun, called, call_);
    builder_.empty(called, exit);
    if (form_.several) builder_.text(called, begun, fmt::format("\n{}", CallMarks::begin));
  }

  // A mark of a call's beginning is followed by a call, and no thinking follows an answer's text.
  void text_with_calls(std::int32_t from, std::int32_t exit) {
    const std::int32_t begun = builder_.node(), text = builder_.node();
    builder_.empty(from, text);
    until(text, {{CallMarks::begin, begun}, {CallMarks::thought, -1}}, exit);
    builder_.call(begun, form_.several ? text : exit, call_);
  }

  const CallForm& form_;
  GrammarBuilder builder_;
  std::int32_t call_ = -1;
};

}  // namespace

Grammar grammar_of_calls(const CallForm& form) { return CallReader(form).read(); }

}  // namespace hone::text
