// Chat templates against transformers' apply_chat_template: over the cases that tools/compare/compare_chat_templates.py
// writes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "text/chat/chat_template.h"

namespace hone::text {
namespace {

using nlohmann::ordered_json;
constexpr std::int64_t kNow = 1'700'000'000;  // as the script has it

class Comparison {
 public:
  void begin_template(const ordered_json& line) {
    name_ = line["name"];
    SpecialTokens tokens;
    for (const auto& [name, text] : line["special"].items()) tokens.emplace_back(name, text.get<std::string>());
    try {
      template_ = std::make_shared<ChatTemplate>(line["template"].get<std::string>(), name_, tokens);
    } catch (const Error& error) {
      template_ = nullptr;
      why_ = error.what();
    }
    ++templates;
  }

  void check(const ordered_json& line) {
    ++cases;
    const std::string got = rendered(line);
    if (!error_.empty() && line.contains("error")) {
      ++errors;
      other_words += error_.find(line["error"].get<std::string>()) == std::string::npos;
      return;
    }
    if (error_.empty() && line.contains("text") && line["text"].get<std::string>() == got) return;
    ++differences[name_];
    if (differences[name_] > 2) return;
    ADD_FAILURE() << name_ << "\nmessages " << line["messages"].dump() << "\ntools " << line["tools"].dump()
                  << "\ngot      " << (error_.empty() ? got : error_) << "\nexpected "
                  << line.value("text", line.value("error", ""));
  }

  std::map<std::string, int> differences;
  int templates = 0, cases = 0, errors = 0, other_words = 0;

 private:
  std::string rendered(const ordered_json& line) {
    error_ = why_;
    if (!template_) return "";
    const auto text = [&](const char* name) { return line[name].is_null() ? "" : line[name].dump(); };
    const Conversation conversation{line["messages"].dump(), text("tools"), text("documents"), text("variables"), -1};
    try {
      const bool prompt = line["generation_prompt"];
      return template_->render(Chat::from(conversation, "case"), {.generation_prompt = prompt, .now = kNow}).text;
    } catch (const Error& error) {
      error_ = error.what();
      return "";
    }
  }

  std::string name_, error_, why_;
  std::shared_ptr<const ChatTemplate> template_;
};

TEST(ChatTemplateReference, GivesTheSameTextOrAnErrorToo) {
  const char* path = std::getenv("HONE_CHAT_CASES");
  if (!path) GTEST_SKIP() << "HONE_CHAT_CASES is not set; tools/compare/compare_chat_templates.py sets it";
  setenv("TZ", "UTC", 1);
  std::ifstream file(path);
  Comparison comparison;
  for (std::string line; std::getline(file, line);) {
    const ordered_json json = ordered_json::parse(line);
    json.contains("template") ? comparison.begin_template(json) : comparison.check(json);
  }
  EXPECT_GT(comparison.cases, 0);
  for (const auto& [name, count] : comparison.differences) std::printf("%6d  %s\n", count, name.c_str());
  std::printf("%d templates, %d cases: %d equal errors (%d in other words)\n", comparison.templates, comparison.cases,
              comparison.errors, comparison.other_words);
}

}  // namespace
}  // namespace hone::text
