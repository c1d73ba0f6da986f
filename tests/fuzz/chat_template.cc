// Any chat template over one conversation: text within the limits, or an error; the same both times.
#include "text/chat/chat_template.h"

#include "base/strings.h"
#include "fuzz/fuzz.h"

// Small ones, so that a million templates are soon done.
constexpr hone::jinja::Limits kLimits = {
    .loop_steps = 10'000, .steps = 200'000, .bytes = 8'000'000, .text = 1'000'000, .output = 500'000};

HONE_FUZZ(chat_template) {
  using namespace hone;
  static const text::Chat chat = text::Chat::from(
      {R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " naïve \n"},)"
       R"( {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}])",
       R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}])", "", "", -1},
      "fuzz");
  const auto rendered = [&]() -> std::string {
    try {
      const text::ChatTemplate chat_template(input, "template", {{"eos_token", "</s>"}});
      const auto made = chat_template.render(chat, {.generation_prompt = true, .limits = kLimits});
      for (const auto& [begin, end] : made.generated)
        fuzz::require(begin <= end && end <= made.text.size(), "blocks lie in the text");
      fuzz::require(is_utf8(made.text), "the text is UTF-8");
      return made.text;
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string first = rendered();
  if (first.find("processor time") == std::string::npos) fuzz::require(rendered() == first, "twice the same");
}
