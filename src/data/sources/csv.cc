// CSV and TSV, with a header line or without one (columns are then numbered from 1).
#include "io/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/option_words.h"
#include "base/strings.h"
#include "data/asked.h"
#include "data/embedding.h"
#include "data/fields.h"
#include "data/judged.h"
#include "data/labels.h"
#include "data/preference.h"
#include "data/table_header.h"
#include "hone/registry.h"

namespace hone::sources {
namespace {

using Cells = std::vector<std::string>;

// Whether a cell is a header line of another separator: as spreadsheets write it where commas stand in numbers.
bool names_several(const std::string& cell) {
  const Cells parts = split(cell, ';');
  return parts.size() > 1 && std::all_of(parts.begin(), parts.end(), data::names_something);
}

class Csv : public Source {
 public:
  Csv(const SourceFile& file, char separator)
      : path_(file.path), fields_(file), rows_(file.path, separator, file.waiting) {
    if (!rows_.next(first_)) {
      ended_ = true;
      return;
    }
    check(first_);
    has_semicolons_ = first_.size() == 1 && names_several(first_[0]);
    if (file.header.value_or(looks_like_header()))
      set_header(file);
    else
      names_ = data::numbered_columns(path_, first_, !file.header);
  }

  bool next(Record& record) override {
    Cells cells;
    if (ended_) return false;
    if (!first_.empty()) {
      cells = std::exchange(first_, {});
    } else if (!rows_.next(cells)) {
      return false;
    }
    check(cells);
    if (cells.size() != names_.size())
      throw Error(ErrorKind::data,
                  fmt::format("{}: got {} fields, expected {}", rows_.where(), cells.size(), names_.size()));
    if (!fields_.templates().empty() || fields_.records() == RecordKind::embedding ||
        fields_.records() == RecordKind::ranked || fields_.records() == RecordKind::seq2seq) {
      read_as_object(cells, record);
      return true;
    }
    if (!form_) resolve();
    record = Record();
    record.line = rows_.line();
    record.unread = std::exchange(unread_, {});
    const auto take = [&](std::ptrdiff_t column) { return std::move(cells[static_cast<std::size_t>(column)]); };
    if (label_ >= 0 && fields_.records() == RecordKind::judged) {
      const data::Place place{path_, record.line};
      const auto label = static_cast<std::size_t>(label_);
      const bool desirable = data::judgement_of(cells[label], names_[label], place);
      record.content = data::judged(PromptRecord{take(prompt_), take(completion_)}, desirable, place);
    } else if (label_ >= 0) {
      const auto label = static_cast<std::size_t>(label_);
      LabelledRecord one;
      data::check_cell(cells[label], fields_.problem_type(), names_[label], {path_, record.line});
      one.label = data::label_of(cells[label], fields_.problem_type(), names_[label], {path_, record.line});
      one.text = take(text_);
      if (text_pair_ >= 0) one.text_pair = take(text_pair_);
      record.content = std::move(one);
    } else if (chosen_ >= 0) {
      std::optional<std::string> prompt;
      if (prompt_ >= 0) prompt = take(prompt_);
      record.content = data::text_pair(std::move(prompt), take(chosen_), take(rejected_), {path_, record.line});
    } else if (fields_.records() == RecordKind::asked) {
      std::string answer = answer_ >= 0 ? take(answer_) : "";
      record.content = data::asked_text(take(prompt_), std::move(answer), {path_, record.line});
    } else if (text_ >= 0) {
      record.content = TextRecord{take(text_)};
    } else {
      record.content = PromptRecord{take(prompt_), take(completion_)};
    }
    return true;
  }

 private:
  bool looks_like_header() const {
    std::vector<std::string> read;
    for (const std::string& known : data::table_fields(fields_.records())) read.push_back(fields_.source_of(known));
    return data::looks_like_header(first_, read, fields_.columns(), fields_.templates());
  }

  void set_header(const SourceFile& file) {
    for (std::size_t i = 0; i < first_.size(); ++i)
      if (std::count(first_.begin(), first_.end(), first_[i]) > 1)
        throw Error(ErrorKind::data,
                    fmt::format("{}: two columns are named {}", rows_.where(), hone::quoted(first_[i])));
    SourceFile named = file;
    bool by_number = false;
    const auto give_name = [&](std::string& source) {
      const std::optional<std::size_t> number = data::column_number(source, first_.size());
      if (!number || std::find(first_.begin(), first_.end(), source) != first_.end()) return;
      std::string& name = first_[*number - 1];
      if (name.empty()) name = source;  // it has no other
      source = name;
      by_number = true;
    };
    for (auto& [known, source] : named.columns) give_name(source);
    for (std::string& ignored : named.ignore) {
      const std::string given = ignored;
      give_name(ignored);
      if (ignored != given) passed_over_.push_back(given);
    }
    guessed_ = !file.header;
    if (by_number) fields_ = data::FieldMap(named);
    names_ = std::exchange(first_, {});
  }
  // Once, at the first row: which column is what.
  void resolve() {
    const data::Place place{path_, rows_.line()};
    const auto find_form = [&] { form_ = fields_.form_of(names_, place); };
    try {
      if (guessed_)
        during("taking the first line for the columns' names (header: false where it is a record)", find_form);
      else
        find_form();
    } catch (const Error& error) {
      if (has_semicolons_ && error.kind() == ErrorKind::data) fail_semicolons();
      throw;
    }
    if (form_->is_conversation())
      throw Error(ErrorKind::data,
                  fmt::format("{}: a conversation in a text table; expected JSON Lines or Parquet", path_));
    if (!form_->input_ids.empty())
      throw Error(ErrorKind::data, fmt::format("{}: input_ids in a text table; expected JSON Lines or Parquet", path_));
    if (!form_->tags.empty() || !form_->entities.empty())
      throw Error(ErrorKind::data, fmt::format("{}: lists of labels in a text table; expected JSON Lines or Parquet",
                                               path_));
    if (!form_->logprobs.empty())
      throw Error(ErrorKind::data, fmt::format("{}: log-probabilities in a text table; expected JSON Lines or Parquet",
                                               path_));
    if (!form_->choices.empty())
      throw Error(ErrorKind::data, fmt::format("{}: choices in a text table; expected JSON Lines or Parquet", path_))
          .hint("or make the list of cells: " + columns_words({{"choices", "{{ [a, b] | tojson }}"}}));
    fields_.check_extras(/*conversation=*/false, /*alpaca=*/false, place);
    text_ = index_of(form_->text);
    prompt_ = index_of(form_->prompt);
    completion_ = index_of(form_->completion);
    text_pair_ = index_of(form_->text_pair);
    label_ = index_of(form_->label);
    chosen_ = index_of(form_->chosen);
    rejected_ = index_of(form_->rejected);
    answer_ = index_of(form_->answer);
    unread_ = fields_.unread(names_, *form_, place);
    unread_.insert(unread_.end(), passed_over_.begin(), passed_over_.end());
  }
  // Templates make what is read of several cells.
  void read_as_object(Cells& cells, Record& record) {
    nlohmann::ordered_json row;
    const std::string label = fields_.records() == RecordKind::labelled ? fields_.source_of("label") : "";
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == label) data::check_cell(cells[i], fields_.problem_type(), label, {path_, rows_.line()});
      if (is_score(names_[i]))
        row[names_[i]] = data::score_of_text(cells[i]);
      else
        row[names_[i]] = std::move(cells[i]);
    }
    const auto read = [&] { fields_.read(std::move(row), {path_, rows_.line()}, record); };
    try {
      if (std::exchange(guessed_, false))
        during("taking the first line for the columns' names (header: false where it is a record)", read);
      else
        read();
    } catch (const Error& error) {
      if (has_semicolons_ && error.kind() == ErrorKind::data) fail_semicolons();
      throw;
    }
    for (std::string& name : std::exchange(passed_over_, {})) record.unread.push_back(std::move(name));
  }
  bool is_score(const std::string& name) const {
    return data::are_texts(fields_.records()) && !fields_.templates().reads(name) &&
           (name == fields_.source_of("score") || name == fields_.source_of("scores"));
  }
  [[noreturn]] void fail_semicolons() const {
    throw Error(ErrorKind::data,
                fmt::format("{}: semicolons between the names in its first line; expected commas, or tabs in a .tsv",
                            path_))
        .hint("write it once more with one of these, or as JSON Lines");
  }
  std::ptrdiff_t index_of(const std::string& name) const {
    if (name.empty()) return -1;
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end())
      throw Error(ErrorKind::data,
                  fmt::format("{}: no column {}; found {}", path_, hone::quoted(name), list_names(names_)));
    return it - names_.begin();
  }

  void check(const Cells& cells) const {
    for (const std::string& cell : cells) {
      if (!is_utf8(cell)) throw Error(ErrorKind::data, fmt::format("{}: invalid UTF-8", rows_.where()));
      if (cell.find('\0') != std::string::npos)
        throw Error(ErrorKind::data, fmt::format("{}: a zero byte, so not a text file", rows_.where()));
    }
  }

  std::string path_;
  data::FieldMap fields_;
  io::CsvReader rows_;
  Cells first_, names_, unread_;
  Cells passed_over_;  // of columns with a name, by their number
  bool ended_ = false;
  bool guessed_ = false;         // that the first line is a header
  bool has_semicolons_ = false;  // between what seem to be columns' names
  std::optional<data::Form> form_;
  std::ptrdiff_t text_ = -1, prompt_ = -1, completion_ = -1, text_pair_ = -1, label_ = -1, chosen_ = -1, rejected_ = -1;
  std::ptrdiff_t answer_ = -1;
};

template <char kSeparator>
class Separated final : public Csv {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  Separated(const Config&, const SourceFile& file) : Csv(file, kSeparator) {}
};

}  // namespace

void register_csv(Registries& hone) {
  hone.sources.add<Separated<','>>("csv", "Comma-separated values (RFC 4180), with or without a header.");
  hone.sources.add<Separated<'\t'>>("tsv", "Tab-separated values, with or without a header.");
}

}  // namespace hone::sources
