// Reading an entry record by record, with a hash of what has been read.
#include "data/stream_entry.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/log.h"
#include "base/strings.h"
#include "data/source.h"
#include "data/taught.h"
#include "data/template_variables.h"
#include "io/pipe.h"

namespace hone::data {
namespace {

std::uint64_t hash_of(std::string_view text, std::uint64_t hash) { return hash64(text, hash + 1); }
template <class T>
std::uint64_t hash_of(const std::vector<T>& values, std::uint64_t hash) {
  return hash_of(std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)), hash);
}

// What has been read so far, and one record more.
struct AndRecord {
  std::uint64_t hash;
  std::uint64_t operator()(const TextRecord& r) const { return hash_of(r.text, hash); }
  std::uint64_t operator()(const PromptRecord& r) const {
    std::uint64_t all = hash_of(r.completion, hash_of(r.prompt, hash));
    for (const std::string& other : r.others) all = hash_of(other, all);
    return all;
  }
  std::uint64_t operator()(const IdsRecord& r) const {
    return hash_of(r.labels.value_or(std::vector<std::int32_t>()), hash_of(r.input_ids, hash));
  }
  std::uint64_t operator()(const ChatRecord& r) const {
    std::uint64_t all = hash_of(r.chat.messages, hash + static_cast<std::uint64_t>(r.chat.prompt));
    for (const int one : r.chosen) all = hash_of(std::to_string(one), all);
    return hash_of(r.chat.variables, hash_of(r.chat.documents, hash_of(r.chat.tools, all)));
  }
  std::uint64_t operator()(const LabelledRecord& r) const {
    return hash_of(r.label, hash_of(r.text_pair.value_or(""), hash_of(r.text, hash)));
  }
  std::uint64_t operator()(const PreferenceRecord& r) const {
    return hash_of(r.rejected, hash_of(r.chosen, hash_of(r.prompt, hash)));
  }
  std::uint64_t operator()(const ChatPreferenceRecord& r) const { return AndRecord{(*this)(r.chosen)}(r.rejected); }
  std::uint64_t operator()(const JudgedRecord& r) const {
    return std::visit(AndRecord{hash + (r.desirable ? 1 : 0)}, r.answer);
  }
  std::uint64_t operator()(const AskedRecord& r) const {
    const std::uint64_t texts = hash_of(r.answer, hash_of(r.prompt, hash));
    return r.chat ? AndRecord{texts}(ChatRecord{*r.chat}) : texts;
  }
  std::uint64_t operator()(const ChoiceRecord& r) const {
    std::uint64_t all = hash_of(std::to_string(r.answer), AndRecord{hash}(AskedRecord{r.prompt, r.chat, ""}));
    for (const std::string& choice : r.choices) all = hash_of(choice, all);
    return all;
  }
  std::uint64_t operator()(const TaggedRecord& r) const {
    std::uint64_t all = hash_of(r.text, hash);
    for (const std::string& word : r.words) all = hash_of(word, all);
    for (const std::string& tag : r.tags) all = hash_of(tag, all);
    for (const TaggedRecord::Span& span : r.spans)
      all = hash_of(span.label, hash_of(std::to_string(span.end), hash_of(std::to_string(span.start), all)));
    return all;
  }
  std::uint64_t operator()(const QuestionRecord& r) const {
    std::uint64_t all = hash_of(r.id, hash_of(r.context, hash_of(r.question, hash)));
    for (const auto& one : r.answers) all = hash_of(one.text, hash_of(std::to_string(one.start), all));
    return all;
  }
  std::uint64_t operator()(const StepsRecord& r) const {
    std::uint64_t all = hash_of(r.prompt, hash);
    for (const std::string& step : r.steps) all = hash_of(step, all);
    for (const std::string& label : r.labels) all = hash_of(label, all);
    return all;
  }
  std::uint64_t operator()(const EmbeddingRecord& r) const {
    std::uint64_t all = hash_of(r.document, hash_of(r.query, hash));
    for (const std::string& other : r.others) all = hash_of(other, all);
    for (const double score : r.scores) all = hash_of(std::to_string(score), all);
    if (!r.label.empty()) all = hash_of(r.label, all);
    return r.score ? hash_of(std::to_string(*r.score), all) : all;
  }
};

}  // namespace

Error other_data(const std::string& name, std::int64_t records, const std::string& problem) {
  return Error(ErrorKind::data, fmt::format("{}: the first {} not what the run was trained on so far{}", name,
                                            records == 1 ? "record is" : fmt::format("{} records are", records),
                                            problem.empty() ? "" : "; " + problem))
      .hint(
          "a stream that is resumed must give again what it gave before; --override data reads the new data from their "
          "beginning, --new starts afresh");
}

EntryReader::EntryReader(std::vector<DataFile> files, RecordKind records, ProblemType problem_type,
                         std::function<void()> waiting, bool pictures, std::string chat_template_kwargs)
    : files_(std::move(files)),
      records_(records),
      problem_type_(problem_type),
      waiting_(std::move(waiting)),
      pictures_(pictures),
      chat_template_kwargs_(std::move(chat_template_kwargs)) {
  HONE_ASSERT(!files_.empty());
  again_ = std::none_of(files_.begin(), files_.end(), [](const DataFile& file) { return io::is_pipe(file.path); });
}

std::string EntryReader::name() const { return name_of(file()); }

void EntryReader::open() {
  SourceFile told = source_file(file(), records_, problem_type_, pictures_);
  told.waiting = waiting_;
  told.teacher_log_probs = teacher_log_probs_;
  told.chat_template_kwargs = with_others(told.chat_template_kwargs, chat_template_kwargs_);
  source_ = open_source(told, file().source);
}

bool EntryReader::next_of_file(Record& record) {
  if (source_ == nullptr) open();
  if (mark_.records == file().max_samples.value_or(-1) || !next_of(*source_, file().source, record))
    return false;
  FileTeacher(file(), teacher_log_probs_, teacher_temperature_).bring(record);
  ++mark_.records;
  mark_.hash = std::visit(AndRecord{mark_.hash}, record.content);
  for (const PictureFile& one : record.pictures) mark_.hash = hash_of(one.bytes, hash_of(one.path, mark_.hash));
  if (const auto& said = record.teacher)
    mark_.hash = hash_of(said->log_probs, hash_of(said->ids, hash_of(said->counts, mark_.hash)));
  if (again_) mark_.place = source_->place();  // in a pipe nobody can go anywhere
  return true;
}

bool EntryReader::next(Record& record) {
  if (waiting_) waiting_();
  while (!next_of_file(record)) {
    const bool last = mark_.file + 1 == std::ssize(files_) || mark_.records == file().max_samples.value_or(-1);
    if (last && mark_.records == 0) throw Error(ErrorKind::data, name() + ": no records");
    if (last && !again_) return false;
    source_.reset();
    if (last)
      mark_ = {.pass = mark_.pass + 1, .hash = mark_.hash};
    else
      ++mark_.file;
    mark_.place.reset();
  }
  return true;
}

void EntryReader::go_to(const StreamMark& from, const StreamMark& at) {
  const auto is_there = [&] { return mark_.pass == at.pass && mark_.records == at.records; };
  mark_ = from;
  if (from.file >= std::ssize(files_)) throw other_data(name_of(files_[0]), at.records);
  if (is_there() && at.records == 0) return;
  if (from.records > 0) {
    open();
    if (!from.place || !source_->place()) throw other_data(name(), at.records);
    source_->seek(*from.place);
  }
  log::info("{}: passing over {}", name(), counted(at.records, "record"));
  try {
    bool more = true;
    for (Record record; more && !is_there() && mark_.pass <= at.pass;) more = next(record);
  } catch (const Error& error) {  // it may begin in the middle of a line now
    if (error.kind() != ErrorKind::data) throw;
    throw other_data(name(), at.records, error.what());
  }
  if (!is_there() || mark_.hash != at.hash) throw other_data(name(), at.records);
}

std::string name_of(const DataFile& file) { return file.path.empty() ? file.source.type : file.path; }

}  // namespace hone::data
