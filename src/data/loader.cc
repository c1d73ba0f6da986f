// Loader: the groups of batches of step after step, made ahead on a background thread.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "base/threads.h"
#include "data/shorten.h"
#include "data/step_sizes.h"
#include "hone/data.h"
#include "hone/random.h"

namespace hone {

// Groups follow from where reading began, so where they are made, and how far ahead, changes nothing.
struct Loader::State {
  struct Made {
    std::vector<HostBatch> group;  // empty: the data have ended
    std::string position;          // behind it
  };

  State(std::shared_ptr<const TrainingData> given, const Options& how)
      : data(std::move(given)), options(how), sizes(how.batch_size, how.accumulate, how.warmup) {}

  std::shared_ptr<const TrainingData> data;
  Options options;
  data::StepSizes sizes;
  std::int64_t step = 0;  // of the group that next() returns
  std::int64_t more = 0;  // rows than the sizes say that were taken before it; negative: fewer
  std::string position;   // before it
  std::unique_ptr<RowReader> rows;
  std::optional<Made> seen;                   // by has_next(): what next() returns
  std::unique_ptr<BoundedQueue<Made>> queue;  // null while nothing is made ahead
  Worker worker;

  ~State() { stop(); }

  std::int64_t rows_before(std::int64_t at) const { return sizes.rows_before(at) + more; }
  void open() { rows = data->read(options.seed, options.shuffle, rows_before(step), position); }

  Made make(std::int64_t at, std::int64_t beyond) {
    Made made;
    std::int64_t place = sizes.rows_before(at) + beyond;
    const data::StepSizes::Size size = sizes.at(at);
    for (std::int64_t micro = 0; micro < size.accumulate; ++micro) {
      std::vector<HostRow> batch;
      HostRow row;
      while (std::ssize(batch) < size.batch_size && rows->next(row)) batch.push_back(std::move(row));
      if (batch.empty()) break;
      if (options.longest)
        for (HostRow& one : batch) data::shorten(one, options.longest(at), options.bos_id);
      const Random random(options.seed, fmt::format("collate/{}", place));
      place += std::ssize(batch);
      made.group.push_back(collate(std::move(batch), options.collator.get(), options.pad_id, random));
    }
    made.position = rows->position();
    return made;
  }

  void start() {
    queue = std::make_unique<BoundedQueue<Made>>(static_cast<std::size_t>(options.ahead));
    // Of steps that are all alike it does not matter for which one a group is made (again()).
    worker = Worker("loader", [this, to = queue.get(), at = step, beyond = more]() mutable {
      try {
        for (bool more = true; more; ++at) {
          Made made = make(at, beyond);
          more = !made.group.empty();
          if (!to->push(std::move(made))) return;
        }
      } catch (...) {  // crosses to the thread that calls next()
        to->fail(std::current_exception());
      }
    });
  }

  // At once: a group that is being made is finished and dropped.
  void stop() {
    if (queue != nullptr) {
      queue->cancel();
      if (rows) rows->cancel();
      worker.join();
      queue.reset();
    }
    rows.reset();
    seen.reset();
  }

  const Made& peek() {
    if (seen) return *seen;
    try {
      if (rows == nullptr) open();
      if (options.ahead <= 0) return seen.emplace(make(step, more));
      if (queue == nullptr) start();
      std::optional<Made> made = queue->pop();
      HONE_ASSERT(made.has_value());
      return seen.emplace(std::move(*made));
    } catch (...) {
      stop();  // the next call tries again
      throw;
    }
  }

  std::vector<HostBatch> next() {
    peek();
    if (seen->group.empty()) return {};
    Made made = std::move(*seen);
    seen.reset();
    ++step;
    position = std::move(made.position);
    return std::move(made.group);
  }
};

namespace {

// What packing gives rows to: documents, or what belongs together, as pairs and lists of them do. Without packing there
// are as many rows.
struct Units {
  std::int64_t count = 0;
  const char* noun = "document";
};
Units units_of(const Dataset& data) {
  Units made;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    std::int64_t last = -1;
    for (const HostDoc& doc : data.row(row)) {
      if (doc.group >= 0) made.noun = "record";
      made.count += doc.group < 0 || doc.group != last;
      last = doc.group;
    }
  }
  return made;
}

}  // namespace

void Loader::check(const Dataset& data, const Options& options) {
  if (options.batch_size < 1 || options.accumulate < 1)
    throw Error(ErrorKind::config, fmt::format("trainer: batch_size {} and accumulate {}; expected at least 1",
                                               options.batch_size, options.accumulate));
  std::int64_t most = options.batch_size;
  for (const Stage& stage : options.warmup) most = std::max(most, stage.batch_size);
  if (data.epoch_rows() >= most) return;
  const std::int64_t rows = data.epoch_rows();
  const auto [units, noun] = units_of(data);
  std::string hint = fmt::format("set trainer.batch_size to {}", rows);
  if (units > data.rows() && units >= most)
    hint += fmt::format(", or data.packing: none, which gives each of the {} its own row", counted(units, noun));
  else if (units > data.rows())
    hint += fmt::format(", or to at most {} with data.packing: none", units);
  throw Error(ErrorKind::data,
              fmt::format("data: {} per epoch; expected at least one batch of {}", counted(rows, "row"), most))
      .hint(hint);
}

Loader::Loader(std::shared_ptr<const TrainingData> data, const Options& options) {
  if (const Dataset* dataset = data->as_dataset()) check(*dataset, options);
  state_ = std::make_unique<State>(std::move(data), options);
}

Loader::~Loader() = default;

void Loader::seek(std::int64_t step, const std::string& position, std::optional<std::int64_t> rows) {
  HONE_ASSERT(step >= 0 && rows.value_or(0) >= 0);
  const std::int64_t more = rows ? *rows - state_->sizes.rows_before(step) : 0;
  if (step == state_->step && position == state_->position && more == state_->more) return;
  state_->stop();
  state_->step = step;
  state_->more = more;
  state_->position = position;
  state_->open();
}

bool Loader::has_next() { return !state_->peek().group.empty(); }
std::vector<HostBatch> Loader::next() { return state_->next(); }

std::vector<HostBatch> Loader::again() {
  State& s = *state_;
  HONE_ASSERT(s.step > 0 && s.options.warmup.empty() && !s.options.longest);
  std::vector<HostBatch> group = s.next();
  if (group.empty()) return group;
  --s.step;
  s.more += s.sizes.at(s.step).rows();
  return group;
}
std::string Loader::position() const { return state_->position; }

std::optional<double> Loader::epoch_at(std::int64_t step) const {
  const Dataset* dataset = state_->data->as_dataset();
  if (dataset == nullptr) return std::nullopt;
  const std::int64_t rows = std::max<std::int64_t>(0, state_->rows_before(step));  // before the seek it may be fewer
  return static_cast<double>(rows) / static_cast<double>(dataset->epoch_rows());
}

std::int64_t Loader::rows_before(std::int64_t step) const { return state_->rows_before(step); }

}  // namespace hone
