package config

import "path/filepath"

// BrokerFolder returns the folder of the embedded broker.
func (c *Config) BrokerFolder() string { return filepath.Join(c.Data, "broker") }

// StoreFolder returns the folder of the disk store.
func (c *Config) StoreFolder() string { return filepath.Join(c.Data, "store") }

// BrokerSocket returns the path at which the embedded broker of a running process listens for the tool only.
func (c *Config) BrokerSocket() string { return filepath.Join(c.BrokerFolder(), "kafka.sock") }

// AggregatorGroup returns the consumer group of all aggregators. Its commits show how far the hits are counted.
func (c *Config) AggregatorGroup() string { return c.Kafka.Prefix + "aggregator" }

// CollectorGroup returns the consumer group of all collectors that read a Kafka source.
func (c *Config) CollectorGroup(s *Source) string { return c.Kafka.Prefix + "collector." + s.Name }

// GroupsFolder returns the folder in which members of consumer groups keep their ids.
func (c *Config) GroupsFolder() string { return filepath.Join(c.Data, "groups") }
