// Lines keep their ends: a tokenizer learns those, too.
#include "cli/training_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/strings.h"
#include "data/source.h"
#include "hone/error.h"
#include "io/pipe.h"

namespace hone::cli {
namespace {

constexpr std::size_t kBlock = 1 << 20;

bool is_text(const std::string& path) {
  if (io::is_pipe(path) && !data::has_data_extension(path)) return true;
  return data::kind_of(path) == "text";
}

// A message's content is a string or a list of parts, of which texts have one.
void add_contents(const std::string& messages, std::deque<std::string>& texts) {
  for (const nlohmann::json& message : nlohmann::json::parse(messages)) {
    const nlohmann::json content = message.value("content", nlohmann::json());
    if (content.is_string()) texts.push_back(content.get<std::string>());
    if (!content.is_array()) continue;
    for (const nlohmann::json& part : content)
      if (part.is_object() && part.contains("text") && part["text"].is_string())
        texts.push_back(part["text"].get<std::string>());
  }
}

}  // namespace

TrainingTexts::Lines::Lines(const std::string& path) : path_(path), bytes_(path, [] {}) {
  if (refill() && buffer_.starts_with("\xEF\xBB\xBF")) at_ = 3;
}

bool TrainingTexts::Lines::refill() {
  buffer_.resize(kBlock);
  buffer_.resize(bytes_.read(std::as_writable_bytes(std::span(buffer_))));
  at_ = 0;
  return !buffer_.empty();
}

bool TrainingTexts::Lines::next(std::string& line) {
  line.clear();
  while (at_ < buffer_.size() || refill()) {
    const std::size_t end = buffer_.find('\n', at_);
    const std::size_t until = end == std::string::npos ? buffer_.size() : end + 1;
    line.append(buffer_, at_, until - at_);
    at_ = until;
    if (end != std::string::npos) break;
  }
  if (line.empty()) return false;
  ++number_;
  if (const auto bad = first_bad_utf8(line))
    throw Error(ErrorKind::data, fmt::format("{}:{}: not UTF-8 at byte {} of the line", path_, number_, *bad));
  return true;
}

bool TrainingTexts::next(std::string& text) {
  for (;;) {
    if (!waiting_.empty()) {
      text = std::move(waiting_.front());
      waiting_.pop_front();
    } else if (source_ ? next_record() : lines_ && lines_->next(text)) {
      if (source_) continue;
    } else {
      if (opened_ == paths_.size()) return false;
      open(paths_[opened_++]);
      continue;
    }
    bytes_ += text.size();
    return true;
  }
}

void TrainingTexts::open(const std::string& path) {
  source_.reset();
  lines_.reset();
  if (is_text(path)) {
    lines_ = std::make_unique<Lines>(path);
    return;
  }
  SourceFile file = like_;
  file.path = path;
  file.waiting = [] {};
  source_ = data::open_source(file);
}

bool TrainingTexts::next_record() {
  Record record;
  if (!source_->next(record)) return false;
  if (const auto* text = record.as<TextRecord>()) {
    waiting_.push_back(text->text);
  } else if (const auto* pair = record.as<PromptRecord>()) {
    waiting_.push_back(pair->prompt + pair->completion);
  } else if (const auto* chat = record.as<ChatRecord>()) {
    add_contents(chat->chat.messages, waiting_);
  } else {
    throw Error(ErrorKind::data,
                fmt::format("{}:{}: no text to learn from; expected a text, a prompt and its completion, or messages",
                            paths_[opened_ - 1], record.line));
  }
  return true;
}

}  // namespace hone::cli
