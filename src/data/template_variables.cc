// Giving conversations variables as they are read.
#include "data/template_variables.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/strings.h"
#include "hone/error.h"
#include "io/json.h"

namespace hone::data {
namespace {

using nlohmann::ordered_json;

class WithVariables final : public Source {
 public:
  WithVariables(std::unique_ptr<Source> source, std::string variables)
      : source_(std::move(source)), variables_(std::move(variables)) {}

  bool next(Record& record) override {
    if (!source_->next(record)) return false;
    std::visit([this](auto& form) { add(form); }, record.content);
    return true;
  }
  std::optional<SourcePlace> place() const override { return source_->place(); }
  void seek(const SourcePlace& place) override { source_->seek(place); }

 private:
  template <class Form>
  void add(Form&) const {}  // no conversation
  void add(Conversation& chat) const { chat.variables = with_others(chat.variables, variables_); }
  void add(std::optional<Conversation>& chat) const {
    if (chat) add(*chat);
  }
  void add(ChatRecord& record) const { add(record.chat); }
  void add(ChatPreferenceRecord& record) const { add(record.chosen), add(record.rejected); }
  void add(JudgedRecord& record) const {
    std::visit([this](auto& answer) { add(answer); }, record.answer);
  }
  void add(AskedRecord& record) const { add(record.chat); }
  void add(ChoiceRecord& record) const { add(record.chat); }

  const std::unique_ptr<Source> source_;
  const std::string variables_;
};

// YAML's True is no text, which a template would take for true whatever it says.
config::Node as_json(config::Node node) {
  if (node.kind() == config::Node::Kind::scalar && !node.quoted())
    for (const char* word : {"true", "false"})
      if (to_lower(node.text()) == word) return config::Node::scalar(word);
  for (config::Node& item : node.items()) item = as_json(std::move(item));
  for (auto& [key, entry] : node.entries()) entry = as_json(std::move(entry));
  return node;
}

}  // namespace

std::string variables_text(const std::map<std::string, config::Open>& variables) {
  if (variables.empty()) return "";
  config::Node all = config::Node::map();
  for (const auto& [name, value] : variables) all.at_or_add(name) = as_json(value.node);
  return config::to_json(all, -1);
}

std::string with_others(const std::string& own, const std::string& others) {
  if (own.empty() || others.empty()) return own + others;
  const ordered_json given = ordered_json::parse(own);
  if (!given.is_object()) return own;  // who reads it says so
  ordered_json all = ordered_json::parse(others);
  all.update(given);
  return all.dump();
}

void check_variables(const std::string& variables, const std::string& option) {
  if (variables.empty() || io::parse_json(variables, option, {.kind = ErrorKind::usage}).is_object()) return;
  throw Error(ErrorKind::usage, option + ": expected a JSON object, as in {\"enable_thinking\": false}");
}

std::unique_ptr<Source> with_variables(std::unique_ptr<Source> source, const std::string& variables) {
  if (variables.empty()) return source;
  return std::make_unique<WithVariables>(std::move(source), variables);
}

}  // namespace hone::data
