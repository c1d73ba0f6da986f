// Which fields of messages are read.
#include "data/message_fields.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "data/form.h"
#include "data/tokenise.h"
#include "data/training_fields.h"

namespace hone::data {
namespace {

constexpr std::string_view kOfMessages = "[].";
constexpr std::array<std::string_view, 14> kRead = {
    "role",  "content",  "from",      "value", "name",        "tool_calls",  "tool_call_id", "weight",
    "train", "training", "trainable", "loss",  "loss_weight", "train_detail"};
constexpr std::array<std::string_view, 3> kReasoning = {"reasoning_content", "thinking", "reasoning"};

bool is_message(const nlohmann::ordered_json& value) {
  return value.is_object() && (value.contains("role") || value.contains("from"));
}

template <std::size_t kCount>
bool is_among(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// By whichever name a message has its reasoning, a template is given it as reasoning_content, too.
bool reads(const text::ChatTemplate& chat_template, std::string_view name) {
  return chat_template.mentions(name) ||
         (is_among(kReasoning, name) && chat_template.mentions("reasoning_content"));
}

}  // namespace

void add_message_fields(const nlohmann::ordered_json& record, const std::vector<std::string>& used,
                        std::set<std::string>& told, std::vector<std::string>& unread) {
  for (const std::string& field : used) {
    const nlohmann::ordered_json* messages = find_field(record, field);
    if (!messages || !messages->is_array()) continue;
    for (const nlohmann::ordered_json& message : *messages) {
      if (!is_message(message)) continue;
      for (const auto& [name, value] : message.items()) {
        if (is_among(kRead, name) || is_blank(value)) continue;
        const std::string whole = field + std::string(kOfMessages) + name;
        if (told.insert(whole).second) unread.push_back(whole);
      }
    }
  }
}

void without_read_by_template(std::vector<std::string>& unread, const Tokenising& how) {
  std::erase_if(unread, [&](const std::string& whole) {
    const std::size_t at = whole.find(kOfMessages);
    return at != std::string::npos && reads(how.chat_template(), whole.substr(at + kOfMessages.size()));
  });
}

}  // namespace hone::data
