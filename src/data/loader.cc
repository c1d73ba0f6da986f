// Loader: the groups of batches of step after step, made ahead on a background thread.
#include <fmt/format.h>

#include <optional>

#include "base/strings.h"
#include "base/threads.h"
#include "hone/data.h"
#include "hone/random.h"

namespace hone {

// Groups are a function of the step alone, so where they are made, and how far ahead, changes nothing.
struct Loader::State {
  using Group = std::vector<HostBatch>;

  std::shared_ptr<const Dataset> data;
  Options options;
  std::int64_t step = 0;                       // of the group that next() returns
  std::unique_ptr<BoundedQueue<Group>> queue;  // both null while nothing is made ahead
  Worker worker;

  ~State() { stop(); }

  Group group_at(std::int64_t at) const {
    Group group;
    std::int64_t position = at * options.batch_size * options.accumulate;
    for (std::int64_t micro = 0; micro < options.accumulate; ++micro) {
      const std::int64_t first = position;
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < options.batch_size; ++i)
        rows.push_back(data->row_at(position++, options.seed, options.shuffle));
      group.push_back(collate(data->take(rows), first));
    }
    return group;
  }

  HostBatch collate(std::vector<HostRow> rows, std::int64_t position) const {
    if (!options.collator) return pad(rows, options.pad_id);
    return options.collator->collate(std::move(rows), Random(options.seed, fmt::format("collate/{}", position)));
  }

  void start() {
    queue = std::make_unique<BoundedQueue<Group>>(static_cast<std::size_t>(options.ahead));
    worker = Worker("loader", [this, to = queue.get(), at = step]() mutable {
      try {
        while (to->push(group_at(at))) ++at;
      } catch (...) {  // crosses to the thread that calls next()
        to->fail(std::current_exception());
      }
    });
  }

  // At once: a group that is being made is finished and dropped.
  void stop() {
    if (queue == nullptr) return;
    queue->cancel();
    worker.join();
    queue.reset();
  }

  Group next() {
    if (options.ahead <= 0) return group_at(step);
    if (queue == nullptr) start();
    try {
      std::optional<Group> group = queue->pop();
      HONE_ASSERT(group.has_value());
      return std::move(*group);
    } catch (...) {
      stop();  // the next call tries again
      throw;
    }
  }
};

void Loader::check(const Dataset& data, const Options& options) {
  if (options.batch_size < 1 || options.accumulate < 1)
    throw Error(ErrorKind::config, fmt::format("trainer: batch_size {} and accumulate {}; expected at least 1",
                                               options.batch_size, options.accumulate));
  if (data.epoch_rows() >= options.batch_size) return;
  // A hint that helps: without packing there are as many rows as pieces.
  const std::int64_t rows = data.epoch_rows(), pieces = data.report().pieces;
  std::string hint = fmt::format("set trainer.batch_size to {}", rows);
  if (pieces >= options.batch_size)
    hint += fmt::format(", or data.packing: none, which gives each of the {} documents its own row", pieces);
  else if (pieces > rows)
    hint += fmt::format(", or to at most {} with data.packing: none", pieces);
  throw Error(ErrorKind::data, fmt::format("data: {} per epoch; expected at least one batch of {}",
                                           counted(rows, "row"), options.batch_size))
      .hint(hint);
}

Loader::Loader(std::shared_ptr<const Dataset> data, const Options& options) : state_(std::make_unique<State>()) {
  check(*data, options);
  state_->data = std::move(data);
  state_->options = options;
}

Loader::~Loader() = default;

void Loader::seek(std::int64_t step) {
  HONE_ASSERT(step >= 0);
  if (step == state_->step) return;
  state_->stop();
  state_->step = step;
}

std::vector<HostBatch> Loader::next() {
  std::vector<HostBatch> group = state_->next();
  ++state_->step;
  return group;
}

double Loader::epoch_at(std::int64_t step) const {
  const double rows = static_cast<double>(step) * static_cast<double>(state_->options.batch_size) *
                      static_cast<double>(state_->options.accumulate);
  return rows / static_cast<double>(state_->data->epoch_rows());
}

}  // namespace hone
