// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include "base/printable.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <string>

namespace mqblk {

namespace {

constexpr std::size_t max_reasons = 256;
constexpr auto repeat_after = std::chrono::seconds(10);

spdlog::level::level_enum level_of(LogLevel level) noexcept {
    switch (level) {
        case LogLevel::debug:
            return spdlog::level::debug;
        case LogLevel::info:
            return spdlog::level::info;
        case LogLevel::warning:
            return spdlog::level::warn;
        case LogLevel::error:
            return spdlog::level::err;
        case LogLevel::off:
            return spdlog::level::off;
    }
    return spdlog::level::info;
}

spdlog::logger& logger() {
    static spdlog::logger instance = [] {
        spdlog::logger made("mqblk", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made.set_pattern("%H:%M:%S.%e %^%l%$: %v");
        made.set_level(spdlog::level::warn);
        made.flush_on(spdlog::level::trace);
        return made;
    }();
    return instance;
}

void write_line(spdlog::level::level_enum level, std::string_view line) noexcept {
    if (!logger().should_log(level)) return;
    try {
        const std::string text = printable(line);
        logger().log(level, spdlog::string_view_t(text.data(), text.size()));
    } catch (const std::bad_alloc&) {
        return;  // a line less
    }
}

/// Who was heard when. Text is kept only for the bounded number of reasons.
class Limiter {
  public:
    /// How many lines were held back since the last, or -1: hold this one back too.
    long admit(std::string_view reason) {
        const auto now = std::chrono::steady_clock::now();
        const std::lock_guard lock(mutex_);
        auto found = heard_.find(reason);
        if (found == heard_.end()) {
            if (heard_.size() >= max_reasons)
                std::erase_if(heard_, [&](const auto& e) { return e.second.next <= now; });
            // Still full: all further reasons share one entry.
            const std::string key(heard_.size() >= max_reasons ? std::string_view("other") : reason);
            found = heard_.try_emplace(key).first;
        }
        Heard& heard = found->second;
        if (now < heard.next) {
            ++heard.held_back;
            return -1;
        }
        heard.next = now + repeat_after;
        return std::exchange(heard.held_back, 0);
    }

  private:
    struct Heard {
        std::chrono::steady_clock::time_point next{};
        long held_back = 0;
    };
    std::mutex mutex_;
    std::map<std::string, Heard, std::less<>> heard_;
};

}  // namespace

void set_log_level(LogLevel level) noexcept {
    logger().set_level(level_of(level));
}

Result<LogLevel> parse_log_level(std::string_view text) {
    if (text == "debug") return LogLevel::debug;
    if (text == "info") return LogLevel::info;
    if (text == "warning") return LogLevel::warning;
    if (text == "error") return LogLevel::error;
    if (text == "off") return LogLevel::off;
    return fail(Errc::invalid_argument, fmt::format("log level {}: must be debug, info, warning, error or off", text));
}

bool log_enabled(LogLevel level) noexcept {
    return logger().should_log(level_of(level));
}

void log_debug(std::string_view line) noexcept {
    write_line(spdlog::level::debug, line);
}
void log_info(std::string_view line) noexcept {
    write_line(spdlog::level::info, line);
}
void log_warning(std::string_view line) noexcept {
    write_line(spdlog::level::warn, line);
}
void log_error(std::string_view line) noexcept {
    write_line(spdlog::level::err, line);
}

void log_limited(std::string_view reason, std::string_view line) noexcept {
    static Limiter limiter;
    const long held_back = limiter.admit(reason);
    if (held_back < 0) return;
    if (held_back == 0) {
        log_warning(line);
    } else {
        log_warning(fmt::format("{} (and {} more of this kind)", line, held_back));
    }
}

}  // namespace mqblk
