package config

import "path/filepath"

// BrokerFolder returns the folder in which versions before kept the topics of a process without Kafka.
func (c *Config) BrokerFolder() string { return filepath.Join(c.Data, "broker") }

// StoreFolder returns the folder of the disk store.
func (c *Config) StoreFolder() string { return filepath.Join(c.Data, "store") }

// TopicsSocket returns the path at which a process that needs no Kafka lets the tool read its topics.
func (c *Config) TopicsSocket() string { return filepath.Join(c.Data, "topics.sock") }

// AggregatorGroup returns the consumer group of all aggregators. Its commits show how far the hits are counted.
func (c *Config) AggregatorGroup() string { return c.Kafka.Prefix + "aggregator" }

// CollectorGroup returns the consumer group of all collectors that read a Kafka source.
func (c *Config) CollectorGroup(s *Source) string { return c.Kafka.Prefix + "collector." + s.Name }

// GroupsFolder returns the folder in which members of consumer groups keep their ids.
func (c *Config) GroupsFolder() string { return filepath.Join(c.Data, "groups") }
