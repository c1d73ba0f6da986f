// Lines keep their ends: a tokenizer learns those, too.
#include "cli/training_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "data/indexed_line.h"
#include "data/source.h"
#include "hone/error.h"
#include "io/pipe.h"
#include "text/chat/chat_arguments.h"
#include "text/jinja/print.h"

namespace hone::cli {
namespace {

constexpr std::size_t kBlock = 1 << 20;

bool is_text(const std::string& path) {
  if (io::is_pipe(path) && !data::has_data_extension(path)) return true;
  return data::kind_of(path) == "text";
}

using nlohmann::ordered_json;
using Strings = std::deque<std::string>;

// As chat templates read it: text or value of a part of text.
std::string text_of_part(const ordered_json& part, const std::string& where) {
  if (part.is_string()) return part.get<std::string>();
  if (part.is_object() && (!part.contains("type") || part["type"] == "text"))
    for (const char* name : {"text", "value"})
      if (part.contains(name) && part[name].is_string()) return part[name].get<std::string>();
  throw Error(ErrorKind::data, where + ": a part of a message's content that is no text");
}

// As chat templates write it, with tojson.
std::string as_json(const ordered_json& value) { return jinja::to_json(jinja::from_json(value.dump(), "JSON"), {}); }

void add_all_strings(const ordered_json& value, Strings& texts) {
  if (value.is_string()) return texts.push_back(value.get<std::string>());
  if (value.is_structured())
    for (const ordered_json& one : value) add_all_strings(one, texts);
}

void add_calls(const ordered_json& calls, Strings& texts) {
  const jinja::Value all = jinja::from_json(calls.dump(), "JSON"), opened = text::with_calls_opened(all).value_or(all);
  for (const jinja::Value& call : opened.items()) texts.push_back(jinja::to_json(text::function_of(call), {}));
}

// A content is a string or a list of parts; what was thought goes by one of three names.
void add_message(const ordered_json& message, const std::string& where, Strings& texts) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    if (const auto thought = message.find(name); thought != message.end() && thought->is_string()) {
      texts.push_back(thought->get<std::string>());
      break;
    }
  const ordered_json content = message.value("content", ordered_json());
  if (content.is_string()) texts.push_back(content.get<std::string>());
  if (content.is_array())
    for (const ordered_json& part : content) texts.push_back(text_of_part(part, where));
  if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_array())
    add_calls(*calls, texts);
}

void add_messages(const Conversation& chat, const std::string& where, Strings& texts, std::int64_t from = 0) {
  const ordered_json all = ordered_json::parse(chat.messages);
  for (std::size_t i = static_cast<std::size_t>(std::max<std::int64_t>(0, from)); i < all.size(); ++i)
    add_message(all[i], where, texts);
}

// What a template writes beside the messages.
void add_extras(const Conversation& chat, Strings& texts) {
  if (!chat.tools.empty())
    for (const ordered_json& tool : ordered_json::parse(chat.tools)) texts.push_back(as_json(tool));
  if (!chat.documents.empty()) add_all_strings(ordered_json::parse(chat.documents), texts);
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
      if (opened_ == paths_.size()) {
        unmet_.tell(paths_.size() == 1 ? paths_[0] : fmt::format("{} and {} more", paths_[0], paths_.size() - 1));
        return false;
      }
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
  source_ = open_source(file);
}

// Which kind of records a file has its first one shows, unless it is a pipe, which is read once.
std::unique_ptr<Source> TrainingTexts::open_source(SourceFile& file) {
  std::optional<Error> first;
  constexpr RecordKind kAll[] = {RecordKind::language, RecordKind::preference, RecordKind::labelled,
                                 RecordKind::judged,   RecordKind::asked,      RecordKind::tagged,
                                 RecordKind::steps,    RecordKind::question,   RecordKind::embedding};
  for (const RecordKind kind : kAll) try {
      file.records = kind;
      if (!io::is_pipe(file.path)) {
        Record record;
        data::open_source(file)->next(record);
      }
      return data::open_source(file);
    } catch (const Error& error) {
      if (!first) first = error;
    }
  throw *first;
}

bool TrainingTexts::next_record() {
  Record record;
  if (!source_->next(record)) return false;
  if (auto* judged = std::get_if<JudgedRecord>(&record.content))
    std::visit([&](auto answer) { record.content = std::move(answer); }, std::move(judged->answer));
  unmet_.meet(record.unread, record.renamed);
  const std::string where = fmt::format("{}:{}", paths_[opened_ - 1], data::line_words(record.line));
  if (const auto* text = record.as<TextRecord>()) {
    waiting_.push_back(text->text);
  } else if (const auto* pair = record.as<PromptRecord>()) {
    waiting_.push_back(pair->prompt + pair->completion);
  } else if (const auto* chat = record.as<ChatRecord>()) {
    add_extras(chat->chat, waiting_);
    add_messages(chat->chat, where, waiting_);
  } else if (const auto* labelled = record.as<LabelledRecord>()) {
    waiting_.push_back(labelled->text);
    if (labelled->text_pair) waiting_.push_back(*labelled->text_pair);
  } else if (const auto* tagged = record.as<TaggedRecord>()) {
    waiting_.push_back(tagged->words.empty() ? tagged->text : join(tagged->words, " "));
  } else if (const auto* steps = record.as<StepsRecord>()) {
    waiting_.push_back(steps->prompt);
    waiting_.insert(waiting_.end(), steps->steps.begin(), steps->steps.end());
  } else if (const auto* question = record.as<QuestionRecord>()) {
    waiting_.insert(waiting_.end(), {question->question, question->context});
  } else if (const auto* embedded = record.as<EmbeddingRecord>()) {
    waiting_.push_back(embedded->query);
    if (embedded->label.empty()) waiting_.push_back(embedded->document);
    waiting_.insert(waiting_.end(), embedded->others.begin(), embedded->others.end());
  } else if (const auto* texts = record.as<PreferenceRecord>()) {
    waiting_.push_back(texts->prompt + texts->chosen);
    waiting_.push_back(texts->rejected);  // the prompt counts once
  } else if (const auto* chats = record.as<ChatPreferenceRecord>()) {
    add_extras(chats->chosen.chat, waiting_);
    add_messages(chats->chosen.chat, where, waiting_);
    add_messages(chats->rejected.chat, where, waiting_, chats->rejected.chat.prompt);
  } else if (const auto* asked = record.as<AskedRecord>()) {
    if (asked->chat) {
      add_extras(*asked->chat, waiting_);
      add_messages(*asked->chat, where, waiting_);
    }
    waiting_.push_back(asked->prompt + asked->answer);
  } else {
    throw Error(ErrorKind::data, where + ": no text to learn from; expected a text, a prompt and its completion, "
                                         "messages, or pairs of answers");
  }
  return true;
}

}  // namespace hone::cli
